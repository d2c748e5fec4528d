/* The few libvpx calls that VP8 needs, behind functions whose arguments are plain numbers and pointers.
 *
 * Compiled against the installed headers, so that libvpx's large configuration struct, whose layout and ABI number differ from
 * version to version, never has to be known on the Rust side. Nothing here decides anything that the Rust side could. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <vpx/vp8cx.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>
#include <vpx/vpx_encoder.h>

struct nearlight_vp8_encoder {
    vpx_codec_ctx_t codec;
    vpx_codec_enc_cfg_t config;
    vpx_codec_pts_t frame;
};

struct nearlight_vp8_decoder {
    vpx_codec_ctx_t codec;
};

/* Mirrored in vpx.rs. */
struct nearlight_vp8_settings {
    uint32_t width;
    uint32_t height;
    uint32_t frames_per_second;
    uint32_t kilobits_per_second;
    int32_t cpu_used;
    uint32_t buffer_milliseconds;
    uint32_t key_frame_percent;
};

/* Mirrored in vpx.rs. */
struct nearlight_vp8_planes {
    const uint8_t *plane[3];
    int32_t stride[3];
    uint32_t width;
    uint32_t height;
};

const char *nearlight_vpx_version(void) {
    return vpx_codec_version_str();
}

const char *nearlight_vpx_error(int32_t error) {
    return vpx_codec_err_to_string((vpx_codec_err_t)error);
}

static vpx_codec_err_t set_controls(vpx_codec_ctx_t *codec, const struct nearlight_vp8_settings *settings) {
    vpx_codec_err_t error = vpx_codec_control(codec, VP8E_SET_CPUUSED, settings->cpu_used);
    if (error == VPX_CODEC_OK) error = vpx_codec_control(codec, VP8E_SET_ENABLEAUTOALTREF, 0u);
    if (error == VPX_CODEC_OK) error = vpx_codec_control(codec, VP8E_SET_NOISE_SENSITIVITY, 0u);
    if (error == VPX_CODEC_OK) error = vpx_codec_control(codec, VP8E_SET_TOKEN_PARTITIONS, (int)VP8_ONE_TOKENPARTITION);
    if (error == VPX_CODEC_OK)
        error = vpx_codec_control(codec, VP8E_SET_MAX_INTRA_BITRATE_PCT, settings->key_frame_percent);
    return error;
}

struct nearlight_vp8_encoder *nearlight_vp8_encoder_new(const struct nearlight_vp8_settings *settings, int32_t *error) {
    struct nearlight_vp8_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) {
        *error = VPX_CODEC_MEM_ERROR;
        return NULL;
    }
    vpx_codec_enc_cfg_t *config = &encoder->config;
    *error = vpx_codec_enc_config_default(vpx_codec_vp8_cx(), config, 0);
    if (*error != VPX_CODEC_OK) {
        free(encoder);
        return NULL;
    }
    config->g_w = settings->width;
    config->g_h = settings->height;
    config->g_timebase.num = 1;
    config->g_timebase.den = (int)settings->frames_per_second;
    config->g_threads = 1;
    config->g_pass = VPX_RC_ONE_PASS;
    config->g_lag_in_frames = 0;
    config->g_error_resilient = VPX_ERROR_RESILIENT_DEFAULT;
    config->rc_end_usage = VPX_CBR;
    config->rc_target_bitrate = settings->kilobits_per_second;
    config->rc_dropframe_thresh = 0;
    config->rc_resize_allowed = 0;
    config->rc_min_quantizer = 2;
    config->rc_max_quantizer = 63;
    config->rc_undershoot_pct = 100;
    config->rc_overshoot_pct = 15;
    config->rc_buf_sz = settings->buffer_milliseconds;
    config->rc_buf_initial_sz = settings->buffer_milliseconds / 2;
    config->rc_buf_optimal_sz = settings->buffer_milliseconds / 2;
    config->kf_mode = VPX_KF_DISABLED;
    *error = vpx_codec_enc_init(&encoder->codec, vpx_codec_vp8_cx(), config, VPX_CODEC_USE_PSNR);
    if (*error != VPX_CODEC_OK) {
        free(encoder);
        return NULL;
    }
    *error = set_controls(&encoder->codec, settings);
    if (*error != VPX_CODEC_OK) {
        vpx_codec_destroy(&encoder->codec);
        free(encoder);
        return NULL;
    }
    return encoder;
}

void nearlight_vp8_encoder_free(struct nearlight_vp8_encoder *encoder) {
    vpx_codec_destroy(&encoder->codec);
    free(encoder);
}

int32_t nearlight_vp8_set_rate(struct nearlight_vp8_encoder *encoder, uint32_t kilobits_per_second) {
    encoder->config.rc_target_bitrate = kilobits_per_second;
    return vpx_codec_enc_config_set(&encoder->codec, &encoder->config);
}

/* Buffers of reference pictures; mirrored in vpx.rs. */
enum { LAST = 1, GOLDEN = 2, ALTERNATE = 4 };

/* What the frame may refer to and where it is kept, each a set of buffers; no reference at all asks for a key frame. A frame's
 * probabilities never outlive it: they would be missing where it was lost. */
static vpx_enc_frame_flags_t frame_flags(uint32_t references, uint32_t updates) {
    if (!references) return VPX_EFLAG_FORCE_KF;
    vpx_enc_frame_flags_t flags = VP8_EFLAG_NO_UPD_ENTROPY;
    if (!(references & LAST)) flags |= VP8_EFLAG_NO_REF_LAST;
    if (!(references & GOLDEN)) flags |= VP8_EFLAG_NO_REF_GF;
    if (!(references & ALTERNATE)) flags |= VP8_EFLAG_NO_REF_ARF;
    if (!(updates & LAST)) flags |= VP8_EFLAG_NO_UPD_LAST;
    if (!(updates & GOLDEN)) flags |= VP8_EFLAG_NO_UPD_GF;
    if (!(updates & ALTERNATE)) flags |= VP8_EFLAG_NO_UPD_ARF;
    return flags;
}

/* The bits stay valid until the next call with this encoder; *length is 0 where libvpx gave no frame. *distortion is the mean
 * squared error of luma, negative where libvpx did not tell. */
int32_t nearlight_vp8_encode(struct nearlight_vp8_encoder *encoder, const struct nearlight_vp8_planes *planes,
                             uint32_t references, uint32_t updates, const uint8_t **bits, size_t *length, int32_t *key,
                             double *distortion) {
    vpx_image_t image;
    *bits = NULL;
    *length = 0;
    *key = 0;
    *distortion = -1.0;
    /* Fills in the format's constants; planes and strides are then set one by one. libvpx only reads them. */
    if (!vpx_img_wrap(&image, VPX_IMG_FMT_I420, planes->width, planes->height, 1, (unsigned char *)planes->plane[0]))
        return VPX_CODEC_MEM_ERROR;
    for (int plane = 0; plane < 3; plane++) {
        image.planes[plane] = (unsigned char *)planes->plane[plane];
        image.stride[plane] = planes->stride[plane];
    }
    vpx_codec_err_t error = vpx_codec_encode(&encoder->codec, &image, encoder->frame, 1,
                                             frame_flags(references, updates), VPX_DL_REALTIME);
    if (error != VPX_CODEC_OK) return error;
    encoder->frame++;
    vpx_codec_iter_t iterator = NULL;
    const vpx_codec_cx_pkt_t *packet;
    while ((packet = vpx_codec_get_cx_data(&encoder->codec, &iterator)) != NULL) {
        if (packet->kind == VPX_CODEC_PSNR_PKT && packet->data.psnr.samples[1] > 0)
            *distortion = (double)packet->data.psnr.sse[1] / packet->data.psnr.samples[1];
        if (packet->kind != VPX_CODEC_CX_FRAME_PKT) continue;
        *bits = packet->data.frame.buf;
        *length = packet->data.frame.sz;
        *key = (packet->data.frame.flags & VPX_FRAME_IS_KEY) != 0;
    }
    return VPX_CODEC_OK;
}

struct nearlight_vp8_decoder *nearlight_vp8_decoder_new(int32_t *error) {
    struct nearlight_vp8_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) {
        *error = VPX_CODEC_MEM_ERROR;
        return NULL;
    }
    vpx_codec_dec_cfg_t config;
    memset(&config, 0, sizeof config);
    config.threads = 1;
    *error = vpx_codec_dec_init(&decoder->codec, vpx_codec_vp8_dx(), &config, 0);
    if (*error != VPX_CODEC_OK) {
        free(decoder);
        return NULL;
    }
    return decoder;
}

void nearlight_vp8_decoder_free(struct nearlight_vp8_decoder *decoder) {
    vpx_codec_destroy(&decoder->codec);
    free(decoder);
}

/* The planes stay valid until the next call with this decoder; plane[0] is null where there is no picture. */
int32_t nearlight_vp8_decode(struct nearlight_vp8_decoder *decoder, const uint8_t *bits, uint32_t length,
                             struct nearlight_vp8_planes *planes, int32_t *corrupt) {
    memset(planes, 0, sizeof *planes);
    *corrupt = 0;
    vpx_codec_err_t error = vpx_codec_decode(&decoder->codec, bits, length, NULL, 0);
    if (error != VPX_CODEC_OK) return error;
    vpx_codec_iter_t iterator = NULL;
    vpx_image_t *image = vpx_codec_get_frame(&decoder->codec, &iterator);
    if (!image) return VPX_CODEC_OK;
    error = vpx_codec_control(&decoder->codec, VP8D_GET_FRAME_CORRUPTED, corrupt);
    if (error != VPX_CODEC_OK) return error;
    if (image->fmt != VPX_IMG_FMT_I420) return VPX_CODEC_UNSUP_BITSTREAM;
    for (int plane = 0; plane < 3; plane++) {
        planes->plane[plane] = image->planes[plane];
        planes->stride[plane] = image->stride[plane];
    }
    planes->width = image->d_w;
    planes->height = image->d_h;
    return VPX_CODEC_OK;
}
