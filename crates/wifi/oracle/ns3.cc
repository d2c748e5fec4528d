// The study's traffic in ns-3 3.44: an oracle for `standard-11ax`, independent of this project's cell.
//
// docs/wifi.md says how to build and run it, and what it printed. Means over all runs; each run has phases of its own.

#include <ns3/boolean.h>
#include <ns3/command-line.h>
#include <ns3/config.h>
#include <ns3/constant-position-mobility-model.h>
#include <ns3/double.h>
#include <ns3/error-rate-model.h>
#include <ns3/he-configuration.h>
#include <ns3/mobility-helper.h>
#include <ns3/net-device-container.h>
#include <ns3/node-container.h>
#include <ns3/propagation-delay-model.h>
#include <ns3/qos-txop.h>
#include <ns3/random-variable-stream.h>
#include <ns3/rng-seed-manager.h>
#include <ns3/simulator.h>
#include <ns3/ssid.h>
#include <ns3/string.h>
#include <ns3/uinteger.h>
#include <ns3/wifi-mac-queue.h>
#include <ns3/wifi-mac.h>
#include <ns3/wifi-net-device.h>
#include <ns3/wifi-phy.h>
#include <ns3/wifi-psdu.h>
#include <ns3/yans-wifi-helper.h>

#include <cmath>
#include <cstdio>
#include <map>

using namespace ns3;

namespace
{

// One packet in ten is lost, whatever its size; control never is. ns-3 asks once for each packet of a transmission.
class TenthLost : public ErrorRateModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("nearlight::TenthLost").SetParent<ErrorRateModel>().AddConstructor<TenthLost>();
        return id;
    }

  private:
    double DoGetChunkSuccessRate(WifiMode mode, const WifiTxVector&, double, uint64_t, uint8_t, WifiPpduField field, uint16_t)
        const override
    {
        const bool data = mode.GetModulationClass() == WIFI_MOD_CLASS_HE && field == WIFI_PPDU_FIELD_DATA;
        return data ? 0.9 : 1.0;
    }
};

struct Mean
{
    double sum = 0;
    double count = 0;

    void Add(double value)
    {
        sum += value;
        count += 1;
    }

    double Get() const
    {
        return count > 0 ? sum / count : 0;
    }
};

struct Sent
{
    Time at;
    int frame; // -1: a pose
};

struct Open
{
    Time at;
    uint32_t left;
};

struct Options
{
    uint32_t fps = 60;
    double interval = 5560; // us between batches
    uint32_t most = 0;      // batches of a frame; 0: as many as begin before the next frame
    uint32_t poses = 0;     // a second
    double seconds = 5;
    uint32_t runs = 20;
};

struct Results
{
    Mean downlink, inOrder, uplink, frames, aggregate, airtime;
};

class Run
{
  public:
    Run(const Options& options, Results& results, uint32_t number)
        : m_options(options),
          m_results(results)
    {
        RngSeedManager::SetSeed(1);
        RngSeedManager::SetRun(number + 1);
        m_random = CreateObject<UniformRandomVariable>();
    }

    void Simulate()
    {
        Build();
        const Time period = Seconds(1.0 / m_options.fps);
        // Once each way, so that block acknowledgement is agreed upon.
        Simulator::Schedule(Seconds(1), &Run::Send, this, 0, 1243, -1);
        Simulator::Schedule(Seconds(1.1), &Run::Send, this, 1, 175, -1);
        Simulator::Schedule(m_start + period * m_random->GetValue(0, 1), &Run::SendFrame, this, 0);
        if (m_options.poses > 0)
        {
            const Time pose = Seconds(1.0 / m_options.poses);
            Simulator::Schedule(m_start + pose * m_random->GetValue(0, 1), &Run::SendPose, this);
        }
        Simulator::Stop(m_end + MilliSeconds(100));
        Simulator::Run();
        Simulator::Destroy();
        m_results.airtime.Add(m_airtime.GetSeconds() / m_options.seconds * 100);
    }

  private:
    void Build()
    {
        NodeContainer nodes(2);
        MobilityHelper mobility;
        mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
        mobility.Install(nodes);

        YansWifiChannelHelper channel;
        channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
        channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-40));
        YansWifiPhyHelper phy;
        phy.SetChannel(channel.Create());
        phy.SetErrorRateModel("nearlight::TenthLost");
        phy.Set("ChannelSettings", StringValue("{0, 80, BAND_5GHZ, 0}"));
        phy.Set("Antennas", UintegerValue(2));
        phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(2));
        phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(2));

        WifiHelper wifi;
        wifi.SetStandard(WIFI_STANDARD_80211ax);
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                     "DataMode",
                                     StringValue("HeMcs11"),
                                     "ControlMode",
                                     StringValue("OfdmRate6Mbps"),
                                     "RtsCtsThreshold",
                                     UintegerValue(0));
        WifiMacHelper mac;
        mac.SetEdca(AC_BE,
                    "MinCws",
                    StringValue("31"),
                    "MaxCws",
                    StringValue("1023"),
                    "Aifsns",
                    StringValue("2"),
                    "TxopLimits",
                    StringValue("0us"));
        const auto install = [&](uint32_t node, const std::string& type) {
            mac.SetType(type, "Ssid", SsidValue(Ssid("cell")), "BE_MaxAmpduSize", UintegerValue(6500631));
            return DynamicCast<WifiNetDevice>(wifi.Install(phy, mac, nodes.Get(node)).Get(0));
        };
        m_devices[0] = install(0, "ns3::ApWifiMac");
        m_devices[1] = install(1, "ns3::StaWifiMac");
        const char* limits[] = {"1000p", "150p"};
        for (int side = 0; side < 2; ++side)
        {
            auto device = m_devices[side];
            device->GetHeConfiguration()->SetGuardInterval(NanoSeconds(800));
            device->GetMac()->SetAttribute("MpduBufferSize", UintegerValue(256));
            device->GetMac()->GetQosTxop(AC_BE)->GetWifiMacQueue()->SetMaxSize(QueueSize(limits[side]));
            device->GetPhy()->TraceConnectWithoutContext("MonitorSnifferRx", MakeCallback(side == 0 ? &Run::OnUp : &Run::OnDown, this));
        }
        m_devices[0]->GetPhy()->TraceConnectWithoutContext("PhyTxPsduBegin", MakeCallback(&Run::OnTransmission, this));
        m_devices[1]->SetReceiveCallback(MakeCallback(&Run::OnReleased, this));
    }

    void Send(int side, uint32_t size, int frame)
    {
        auto packet = Create<Packet>(size);
        m_sent[packet->GetUid()] = {Simulator::Now(), frame};
        m_devices[side]->Send(packet, m_devices[1 - side]->GetAddress(), 0x88b5);
    }

    void SendFrame(int frame)
    {
        const double period = 1e6 / m_options.fps;
        const auto most = m_options.most > 0 ? m_options.most : uint32_t(std::ceil(period / m_options.interval));
        const uint32_t batches = m_random->GetInteger(1, most);
        const auto packets = uint32_t(std::ceil(50e6 / 8 / m_options.fps / batches / 1243));
        m_frames[frame] = {Simulator::Now(), batches * packets};
        for (uint32_t batch = 0; batch < batches; ++batch)
        {
            for (uint32_t packet = 0; packet < packets; ++packet)
            {
                const Time offset = NanoSeconds(int64_t(m_options.interval * 1000) * batch + 5000 * packet);
                Simulator::Schedule(offset, &Run::Send, this, 0, 1243, frame);
            }
        }
        Simulator::Schedule(Seconds(1.0 / m_options.fps), &Run::SendFrame, this, frame + 1);
    }

    void SendPose()
    {
        Send(1, 175, -1);
        Simulator::Schedule(Seconds(1.0 / m_options.poses), &Run::SendPose, this);
    }

    bool Counts(Time at) const
    {
        return at >= m_start && at < m_end;
    }

    void OnDown(Ptr<const Packet> packet, uint16_t, WifiTxVector, MpduInfo, SignalNoiseDbm, uint16_t)
    {
        const auto sent = m_sent.find(packet->GetUid());
        if (sent == m_sent.end() || sent->second.frame < 0)
        {
            return;
        }
        const Time now = Simulator::Now();
        if (Counts(sent->second.at))
        {
            m_results.downlink.Add((now - sent->second.at).GetSeconds() * 1e3);
        }
        auto& frame = m_frames[sent->second.frame];
        frame.left -= 1;
        if (frame.left == 0 && Counts(frame.at))
        {
            m_results.frames.Add((now - frame.at).GetSeconds() * 1e3);
        }
    }

    void OnUp(Ptr<const Packet> packet, uint16_t, WifiTxVector, MpduInfo, SignalNoiseDbm, uint16_t)
    {
        const auto sent = m_sent.find(packet->GetUid());
        if (sent != m_sent.end() && Counts(sent->second.at))
        {
            m_results.uplink.Add((Simulator::Now() - sent->second.at).GetSeconds() * 1e3);
        }
    }

    bool OnReleased(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        const auto sent = m_sent.find(packet->GetUid());
        if (sent != m_sent.end() && Counts(sent->second.at))
        {
            m_results.inOrder.Add((Simulator::Now() - sent->second.at).GetSeconds() * 1e3);
        }
        return true;
    }

    void OnTransmission(WifiConstPsduMap psdus, WifiTxVector vector, double)
    {
        const auto& psdu = psdus.begin()->second;
        if (!psdu->GetHeader(0).IsQosData() || !Counts(Simulator::Now()))
        {
            return;
        }
        m_results.aggregate.Add(psdu->GetNMpdus());
        const Time data = WifiPhy::CalculateTxDuration(psdus, vector, WIFI_PHY_BAND_5GHZ);
        const Time around = MicroSeconds(52 + 16 + 44 + 16 + 16 + (psdu->GetNMpdus() == 1 ? 28 : 40));
        m_airtime += data + around;
    }

    const Options& m_options;
    Results& m_results;
    Ptr<UniformRandomVariable> m_random;
    Ptr<WifiNetDevice> m_devices[2];
    std::map<uint64_t, Sent> m_sent;
    std::map<int, Open> m_frames;
    Time m_airtime;
    const Time m_start = Seconds(2);
    const Time m_end = m_start + Seconds(m_options.seconds);
};

} // namespace

int main(int argc, char* argv[])
{
    TenthLost::GetTypeId();
    Options options;
    CommandLine command;
    command.AddValue("fps", "Frames a second", options.fps);
    command.AddValue("interval", "Microseconds between batches", options.interval);
    command.AddValue("most", "Batches of a frame at most; 0: as many as begin before the next frame", options.most);
    command.AddValue("poses", "Poses a second", options.poses);
    command.AddValue("seconds", "Length of a run", options.seconds);
    command.AddValue("runs", "Runs, each with phases of its own", options.runs);
    command.Parse(argc, argv);
    Results results;
    for (uint32_t run = 0; run < options.runs; ++run)
    {
        Run(options, results, run).Simulate();
    }
    std::printf("fps %u interval %g most %u poses %u: downlink %.3f ms, in order %.3f ms, frame %.3f ms, A-MPDU %.2f, "
                "airtime %.2f %%, uplink %.3f ms\n",
                options.fps,
                options.interval,
                options.most,
                options.poses,
                results.downlink.Get(),
                results.inOrder.Get(),
                results.frames.Get(),
                results.aggregate.Get(),
                results.airtime.Get(),
                results.uplink.Get());
}
