// The study's traffic for one or several stations in ns-3 3.44: an oracle for `standard-11ax`, independent of this project's cell.
//
// docs/wifi.md describes how to build and run it, and lists its output. Means and 99 % quantiles over all runs and stations; each run has
// phases of its own. In brackets: their standard errors, from the spread of the runs. Each run is a process of its own: one that fails
// in an assertion of ns-3's is left out and counted. SIGINT and SIGTERM end it after the run under way.

#include <ns3/boolean.h>
#include <ns3/command-line.h>
#include <ns3/config.h>
#include <ns3/constant-position-mobility-model.h>
#include <ns3/ctrl-headers.h>
#include <ns3/double.h>
#include <ns3/enum.h>
#include <ns3/error-model.h>
#include <ns3/error-rate-model.h>
#include <ns3/he-configuration.h>
#include <ns3/mobility-helper.h>
#include <ns3/multi-model-spectrum-channel.h>
#include <ns3/net-device-container.h>
#include <ns3/node-container.h>
#include <ns3/propagation-delay-model.h>
#include <ns3/propagation-loss-model.h>
#include <ns3/qos-txop.h>
#include <ns3/random-variable-stream.h>
#include <ns3/rng-seed-manager.h>
#include <ns3/simulator.h>
#include <ns3/spectrum-wifi-helper.h>
#include <ns3/ssid.h>
#include <ns3/string.h>
#include <ns3/uinteger.h>
#include <ns3/wifi-mac-queue.h>
#include <ns3/wifi-mac.h>
#include <ns3/wifi-net-device.h>
#include <ns3/wifi-phy.h>
#include <ns3/wifi-psdu.h>
#include <ns3/wifi-acknowledgment.h>
#include <ns3/yans-wifi-helper.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace ns3;

namespace
{

// The signal is good enough for everything.
class NoNoise : public ErrorRateModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("nearlight::NoNoise").SetParent<ErrorRateModel>().AddConstructor<NoNoise>();
        return id;
    }

  private:
    double DoGetChunkSuccessRate(WifiMode, const WifiTxVector&, double, uint64_t, uint8_t, WifiPpduField, uint16_t) const override
    {
        return 1.0;
    }
};

// One packet in ten is lost, regardless of size; shorter control frames never are. ns-3 calls this once for each packet of
// a transmission.
class TenthLost : public ErrorModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("nearlight::TenthLost").SetParent<ErrorModel>().AddConstructor<TenthLost>();
        return id;
    }

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() > 150 && m_random->GetValue(0, 1) < 0.1;
    }

    void DoReset() override
    {
    }

    Ptr<UniformRandomVariable> m_random = CreateObject<UniformRandomVariable>();
};

// Samples, by run.
class Values
{
  public:
    void Add(double value)
    {
        m_run.push_back(value);
    }

    void Write(FILE* file) const
    {
        const std::size_t count = m_run.size();
        std::fwrite(&count, sizeof count, 1, file);
        std::fwrite(m_run.data(), sizeof(double), count, file);
    }

    // Adds a run that Write has written; false where there is none.
    bool Read(FILE* file)
    {
        std::size_t count = 0;
        if (std::fread(&count, sizeof count, 1, file) != 1)
        {
            return false;
        }
        std::vector<double> run(count);
        const bool whole = std::fread(run.data(), sizeof(double), count, file) == count;
        m_runs.push_back(std::move(run));
        return whole;
    }

    // Forgets the runs from this number on.
    void Truncate(std::size_t runs)
    {
        m_runs.resize(std::min(runs, m_runs.size()));
    }

    double Mean() const
    {
        return MeanOf(AllOf(Every()));
    }

    double Quantile(double share) const
    {
        return QuantileOf(AllOf(Every()), share);
    }

    double MeanError() const
    {
        return Spread([](const std::vector<double>& all) { return MeanOf(all); });
    }

    double QuantileError(double share) const
    {
        return Spread([share](const std::vector<double>& all) { return QuantileOf(all, share); });
    }

  private:
    // The bootstrap's standard error: the spread of a figure over random selections of as many runs, with repetition.
    template <typename Figure>
    double Spread(Figure figure) const
    {
        constexpr int selections = 200;
        std::mt19937 random(1);
        std::vector<double> figures;
        for (int selection = 0; selection < selections && !m_runs.empty(); ++selection)
        {
            std::vector<std::size_t> runs;
            for (std::size_t run = 0; run < m_runs.size(); ++run)
            {
                runs.push_back(random() % m_runs.size());
            }
            figures.push_back(figure(AllOf(runs)));
        }
        const double mean = MeanOf(figures);
        double squares = 0;
        for (const double one : figures)
        {
            squares += (one - mean) * (one - mean);
        }
        return figures.size() > 1 ? std::sqrt(squares / (figures.size() - 1)) : 0;
    }

    std::vector<std::size_t> Every() const
    {
        std::vector<std::size_t> runs(m_runs.size());
        for (std::size_t run = 0; run < runs.size(); ++run)
        {
            runs[run] = run;
        }
        return runs;
    }

    std::vector<double> AllOf(const std::vector<std::size_t>& runs) const
    {
        std::vector<double> all;
        for (const std::size_t run : runs)
        {
            all.insert(all.end(), m_runs[run].begin(), m_runs[run].end());
        }
        return all;
    }

    static double QuantileOf(std::vector<double> values, double share)
    {
        if (values.empty())
        {
            return 0;
        }
        const auto place = values.begin() + std::size_t(share * (values.size() - 1));
        std::nth_element(values.begin(), place, values.end());
        return *place;
    }

    static double MeanOf(const std::vector<double>& values)
    {
        double sum = 0;
        for (const double value : values)
        {
            sum += value;
        }
        return values.empty() ? 0 : sum / values.size();
    }

    std::vector<double> m_run;
    std::vector<std::vector<double>> m_runs;
};

struct Sent
{
    Time at;
    uint32_t station;
    int frame; // -1: a pose
};

struct Open
{
    Time at;
    uint32_t left;
};

struct Options
{
    uint32_t stations = 1;
    uint32_t fps = 60;
    double mbps = 50;
    double interval = 5560; // us between batches
    uint32_t most = 0;      // batches of a frame; 0: as many as begin before the next frame
    uint32_t poses = 0;     // a second
    double seconds = 5;
    uint32_t runs = 20;
    uint32_t first = 0;
    uint32_t downlinkOfdma = 0; // stations of a transmission at most; 0: none
    bool uplinkOfdma = false;
    bool trace = false;
};

struct Results
{
    Values downlink, inOrder, uplink, frames, aggregate, airtime, uplinkAirtime, lostRts, overflows, polls, triggers, requests;
    std::size_t runs = 0;

    std::vector<Values*> All()
    {
        return {&downlink, &inOrder, &uplink, &frames, &aggregate, &airtime, &uplinkAirtime, &lostRts, &overflows, &polls, &triggers, &requests};
    }
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
        for (uint32_t station = 0; station < m_options.stations; ++station)
        {
            // Once each way, to set up block acknowledgement.
            const Time turn = MilliSeconds(20 * station);
            Simulator::Schedule(Seconds(1) + turn, &Run::Send, this, station, true, 1243, -1);
            Simulator::Schedule(Seconds(1.01) + turn, &Run::Send, this, station, false, 175, -1);
            Simulator::Schedule(m_start + period * m_random->GetValue(0, 1), &Run::SendFrame, this, station, 0);
            if (m_options.poses > 0)
            {
                const Time pose = Seconds(1.0 / m_options.poses);
                Simulator::Schedule(m_start + pose * m_random->GetValue(0, 1), &Run::SendPose, this, station);
            }
        }
        Simulator::Stop(m_end + MilliSeconds(200));
        Simulator::Run();
        Simulator::Destroy();
        m_results.airtime.Add(m_airtime[0].GetSeconds() / m_options.seconds * 100);
        m_results.uplinkAirtime.Add(m_airtime[1].GetSeconds() / m_options.seconds * 100);
        // With several users, triggers request CTS as well.
        m_results.lostRts.Add(IsMultiUser() ? 0 : (m_rts - m_exchanges) / m_options.seconds);
        m_results.overflows.Add(m_overflows);
        m_results.polls.Add(m_polls / m_options.seconds);
        m_results.triggers.Add(m_triggers / m_options.seconds);
        m_results.requests.Add(m_requests / m_options.seconds);
    }

  private:
    void Build()
    {
        NodeContainer nodes(1 + m_options.stations);
        MobilityHelper mobility;
        mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
        mobility.Install(nodes);

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
        YansWifiPhyHelper yans;
        SpectrumWifiPhyHelper spectrum;
        WifiPhyHelper& phy = IsMultiUser() ? static_cast<WifiPhyHelper&>(spectrum) : yans;
        if (IsMultiUser())
        {
            auto channel = CreateObject<MultiModelSpectrumChannel>();
            auto loss = CreateObject<FixedRssLossModel>();
            loss->SetRss(-60);
            channel->AddPropagationLossModel(loss);
            channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
            spectrum.SetChannel(channel);
        }
        else
        {
            YansWifiChannelHelper channel;
            channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
            channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-40));
            yans.SetChannel(channel.Create());
        }
        phy.SetErrorRateModel("nearlight::NoNoise");
        phy.Set("ChannelSettings", StringValue("{0, 80, BAND_5GHZ, 0}"));
        phy.Set("Antennas", UintegerValue(2));
        phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(2));
        phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(2));
        const auto install = [&](uint32_t node) {
            const bool isAccessPoint = node == 0;
            mac.SetType(isAccessPoint ? "ns3::ApWifiMac" : "ns3::StaWifiMac",
                        "Ssid",
                        SsidValue(Ssid("cell")),
                        "BE_MaxAmpduSize",
                        UintegerValue(6500631));
            if (isAccessPoint && IsMultiUser())
            {
                mac.SetMultiUserScheduler("ns3::RrMultiUserScheduler",
                                          "NStations",
                                          UintegerValue(m_options.downlinkOfdma),
                                          "EnableUlOfdma",
                                          BooleanValue(m_options.uplinkOfdma));
            }
            auto device = DynamicCast<WifiNetDevice>(wifi.Install(phy, mac, nodes.Get(node)).Get(0));
            device->GetPhy()->SetPostReceptionErrorModel(CreateObject<TenthLost>());
            device->GetHeConfiguration()->SetGuardInterval(NanoSeconds(800));
            device->GetMac()->SetAttribute("MpduBufferSize", UintegerValue(256));
            auto queue = device->GetMac()->GetQosTxop(AC_BE)->GetWifiMacQueue();
            queue->SetMaxSize(QueueSize(isAccessPoint ? "1000p" : "150p"));
            queue->TraceConnectWithoutContext("DropBeforeEnqueue", MakeCallback(&Run::OnOverflow, this));
            device->GetPhy()->TraceConnectWithoutContext("PhyTxPsduBegin",
                                                         MakeCallback(&Run::OnTransmission, this).Bind(node));
            device->GetPhy()->TraceConnectWithoutContext("MonitorSnifferRx", MakeCallback(&Run::OnHeard, this).Bind(node));
            device->SetReceiveCallback(MakeCallback(&Run::OnReleased, this));
            m_devices.push_back(device);
        };
        for (uint32_t node = 0; node < 1 + m_options.stations; ++node)
        {
            install(node);
        }
    }

    bool IsMultiUser() const
    {
        return m_options.downlinkOfdma > 0;
    }

    void Send(uint32_t station, bool down, uint32_t size, int frame)
    {
        auto packet = Create<Packet>(size);
        m_sent[packet->GetUid()] = {Simulator::Now(), station, frame};
        const uint32_t node = station + 1;
        m_devices[down ? 0 : node]->Send(packet, m_devices[down ? node : 0]->GetAddress(), 0x88b5);
    }

    void SendFrame(uint32_t station, int frame)
    {
        const double period = 1e6 / m_options.fps;
        const auto most = m_options.most > 0 ? m_options.most : uint32_t(std::ceil(period / m_options.interval));
        const uint32_t batches = m_random->GetInteger(1, most);
        const auto packets = uint32_t(std::ceil(m_options.mbps * 1e6 / 8 / m_options.fps / batches / 1243));
        m_frames[{station, frame}] = {Simulator::Now(), batches * packets};
        for (uint32_t batch = 0; batch < batches; ++batch)
        {
            for (uint32_t packet = 0; packet < packets; ++packet)
            {
                const Time offset = NanoSeconds(int64_t(m_options.interval * 1000) * batch + 5000 * packet);
                Simulator::Schedule(offset, &Run::Send, this, station, true, 1243, frame);
            }
        }
        Simulator::Schedule(Seconds(1.0 / m_options.fps), &Run::SendFrame, this, station, frame + 1);
    }

    void SendPose(uint32_t station)
    {
        Send(station, false, 175, -1);
        Simulator::Schedule(Seconds(1.0 / m_options.poses), &Run::SendPose, this, station);
    }

    bool Counts(Time at) const
    {
        return at >= m_start && at < m_end;
    }

    void OnOverflow(Ptr<const WifiMpdu>)
    {
        m_overflows += 1;
    }

    // All nodes hear every transmission that is not split by frequency; only its receiver counts.
    void OnHeard(uint32_t node, Ptr<const Packet> packet, uint16_t, WifiTxVector, MpduInfo, SignalNoiseDbm, uint16_t)
    {
        const auto sent = m_sent.find(packet->GetUid());
        if (sent == m_sent.end())
        {
            return;
        }
        const double delay = (Simulator::Now() - sent->second.at).GetSeconds() * 1e3;
        const bool counts = Counts(sent->second.at);
        if (sent->second.frame < 0)
        {
            if (node == 0 && counts && m_poses.insert(packet->GetUid()).second)
            {
                m_results.uplink.Add(delay);
            }
            return;
        }
        if (node != sent->second.station + 1)
        {
            return;
        }
        auto& frame = m_frames[{sent->second.station, sent->second.frame}];
        if (counts)
        {
            m_results.downlink.Add(delay);
        }
        frame.left -= 1;
        if (frame.left == 0 && Counts(frame.at))
        {
            m_results.frames.Add((Simulator::Now() - frame.at).GetSeconds() * 1e3);
        }
    }

    bool OnReleased(Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        const auto sent = m_sent.find(packet->GetUid());
        if (device != m_devices[0] && sent != m_sent.end() && Counts(sent->second.at))
        {
            m_results.inOrder.Add((Simulator::Now() - sent->second.at).GetSeconds() * 1e3);
        }
        return true;
    }

    void OnTransmission(uint32_t node, WifiConstPsduMap psdus, WifiTxVector vector, double)
    {
        if (!Counts(Simulator::Now()))
        {
            return;
        }
        const auto& psdu = psdus.begin()->second;
        const auto& header = psdu->GetHeader(0);
        const Time data = WifiPhy::CalculateTxDuration(psdus, vector, WIFI_PHY_BAND_5GHZ);
        if (m_options.trace)
        {
            std::printf("%.1f node %u %s to", Simulator::Now().GetNanoSeconds() / 1e3, node, header.GetTypeString());
            for (const auto& [id, part] : psdus)
            {
                std::printf(" %u:%zu (%u bytes)", id, part->GetNMpdus(), part->GetSize());
            }
            if (header.IsTrigger())
            {
                CtrlTriggerHeader trigger;
                psdu->GetPayload(0)->PeekHeader(trigger);
                std::printf(" %s length %u of", trigger.GetTypeString(), trigger.GetUlLength());
                for (const auto& user : trigger)
                {
                    std::printf(" %u", user.GetAid12());
                }
            }
            std::printf(" %.1f us\n", data.GetNanoSeconds() / 1e3);
        }
        m_rts += header.IsRts();
        m_requests += header.IsBlockAckReq();
        if (header.IsTrigger())
        {
            CtrlTriggerHeader trigger;
            psdu->GetPayload(0)->PeekHeader(trigger);
            m_polls += trigger.IsBsrp();
            m_triggers += trigger.IsBasic();
        }
        if (!header.IsQosData() || !header.HasData())
        {
            return;
        }
        m_exchanges += 1;
        for (const auto& [id, part] : psdus)
        {
            if (node == 0)
            {
                // In multi-user transmissions, a request for acknowledgement accompanies the packets.
                m_results.aggregate.Add(part->GetNMpdus() - IsMultiUser());
            }
        }
        const Time around = MicroSeconds(52 + 16 + 44 + 16 + 16 + (psdu->GetNMpdus() == 1 ? 28 : 40));
        m_airtime[node > 0] += data + around;
    }

    const Options& m_options;
    Results& m_results;
    Ptr<UniformRandomVariable> m_random;
    std::vector<Ptr<WifiNetDevice>> m_devices; // the access point, then the stations
    std::map<uint64_t, Sent> m_sent;
    std::set<uint64_t> m_poses;
    std::map<std::pair<uint32_t, int>, Open> m_frames;
    Time m_airtime[2]; // down, up
    double m_rts = 0;
    double m_exchanges = 0;
    double m_overflows = 0;
    double m_polls = 0;
    double m_triggers = 0;
    double m_requests = 0; // for block acknowledgements
    const Time m_start = Seconds(2);
    const Time m_end = m_start + Seconds(m_options.seconds);
};

// Set to skip the remaining runs.
volatile std::sig_atomic_t g_stopped = 0;

void
OnSignal(int)
{
    g_stopped = 1;
}

// Simulates a run in a process of its own and adds its samples; false where it failed.
bool
Simulate(const Options& options, Results& results, uint32_t number)
{
    int ends[2];
    if (pipe(ends) != 0)
    {
        return false;
    }
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
    {
        close(ends[0]);
        Results own;
        Run(options, own, number).Simulate();
        FILE* file = fdopen(ends[1], "w");
        for (const auto* values : own.All())
        {
            values->Write(file);
        }
        std::fclose(file);
        std::fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    FILE* file = fdopen(ends[0], "r");
    const std::size_t before = results.runs;
    bool whole = true;
    for (auto* values : results.All())
    {
        whole = whole && values->Read(file);
    }
    std::fclose(file);
    int status = 0;
    waitpid(child, &status, 0);
    if (whole && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    {
        results.runs += 1;
        return true;
    }
    for (auto* values : results.All())
    {
        values->Truncate(before);
    }
    return false;
}

void
Print(const char* name, const Values& values)
{
    std::printf(", %s %.3f (%.3f) %.3f (%.3f)",
                name,
                values.Mean(),
                values.MeanError(),
                values.Quantile(0.99),
                values.QuantileError(0.99));
}

} // namespace

int main(int argc, char* argv[])
{
    NoNoise::GetTypeId();
    TenthLost::GetTypeId();
    Options options;
    CommandLine command;
    command.AddValue("stations", "Stations, each with video and poses of its own", options.stations);
    command.AddValue("fps", "Frames a second", options.fps);
    command.AddValue("mbps", "Video of a station", options.mbps);
    command.AddValue("interval", "Microseconds between batches", options.interval);
    command.AddValue("most", "Batches of a frame at most; 0: as many as begin before the next frame", options.most);
    command.AddValue("poses", "Poses a second", options.poses);
    command.AddValue("seconds", "Length of a run", options.seconds);
    command.AddValue("runs", "Runs, each with phases of its own", options.runs);
    command.AddValue("first", "Number of the first run", options.first);
    command.AddValue("downlinkOfdma", "Stations of a transmission at most, by ns-3's round-robin scheduler", options.downlinkOfdma);
    command.AddValue("uplinkOfdma", "That scheduler also triggers uplink transmissions", options.uplinkOfdma);
    command.AddValue("trace", "Print every transmission that counts", options.trace);
    command.Parse(argc, argv);
    // MU-RTS and CTS, then data that also requests block acknowledgements in parallel.
    Config::SetDefault("ns3::WifiDefaultProtectionManager::EnableMuRts", BooleanValue(true));
    Config::SetDefault("ns3::WifiDefaultAckManager::DlMuAckSequenceType",
                       EnumValue(WifiAcknowledgment::DL_MU_AGGREGATE_TF));
    Results results;
    std::signal(SIGINT, OnSignal);
    std::signal(SIGTERM, OnSignal);
    uint32_t failed = 0;
    for (uint32_t run = 0; run < options.runs && !g_stopped; ++run)
    {
        failed += !Simulate(options, results, options.first + run);
    }
    std::printf("runs %zu failed %u stations %u fps %u mbps %g interval %g most %u poses %u ofdma %u %d: ms, mean (error) 99 %% (error)",
                results.runs,
                failed,
                options.stations,
                options.fps,
                options.mbps,
                options.interval,
                options.most,
                options.poses,
                options.downlinkOfdma,
                options.uplinkOfdma);
    Print("downlink", results.downlink);
    Print("in order", results.inOrder);
    Print("frame", results.frames);
    Print("uplink", results.uplink);
    std::printf("; A-MPDU %.2f (%.2f), airtime %.2f %% (%.2f), uplink airtime %.2f %%, lost RTS %.2f/s, overflows %.2f a run, "
                "polls %.1f/s, triggers %.1f/s, requests for acknowledgement %.2f/s\n",
                results.aggregate.Mean(),
                results.aggregate.MeanError(),
                results.airtime.Mean(),
                results.airtime.MeanError(),
                results.uplinkAirtime.Mean(),
                results.lostRts.Mean(),
                results.overflows.Mean(),
                results.polls.Mean(),
                results.triggers.Mean(),
                results.requests.Mean());
}
