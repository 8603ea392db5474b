//! Video: frames of a format, as many requests as a frame's bytes need, due at the format's rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Mistake;
use crate::units::{Bytes, Duration};

/// A frame begins at a page, as a file of its own would.
pub const FRAME_ALIGN_BYTES: u64 = 4096;
/// Samba's module for players of one file a frame (vfs_preopen) reads 10 files ahead unless told otherwise.
const BUFFER_FRAMES: f64 = 10.0;

/// A video format: bytes of a frame, and frames a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoFormat {
    pub name: &'static str,
    pub frame_bytes: u64,
    pub rate_per_s: f64,
}

const fn format(name: &'static str, frame_bytes: u64, rate_per_s: f64) -> VideoFormat {
    VideoFormat { name, frame_bytes, rate_per_s }
}

/// The formats of Overland's RAID guide (2007). Uncompressed frames are width × height × 2 bytes a pixel at 8 bit
/// (4:2:2) and 8/3 at 10 bit. The guide gives MiB/s; its rates are those of DV and DVCPRO 50 at 25 frames a second
/// (IEC 61834: 144,000 bytes a frame, twice as much at 50 Mbit/s), of other SD at 30, and of DVCPRO HD at 24 (40 Mbit/s
/// of picture and eight channels of sound at 768 kbit/s).
pub const VIDEO_FORMATS: [VideoFormat; 14] = [
    format("dvcpro-hd", 240_000, 24.0),
    format("720p-24", 1280 * 720 * 2, 24.0),
    format("720p-30", 1280 * 720 * 2, 30.0),
    format("720p-60", 1280 * 720 * 2, 60.0),
    format("1080p-24-8-bit", 1920 * 1080 * 2, 24.0),
    format("1080p-24-10-bit", 1920 * 1080 * 8 / 3, 24.0),
    format("1080i-8-bit", 1920 * 1080 * 2, 30.0),
    format("1080i-10-bit", 1920 * 1080 * 8 / 3, 30.0),
    format("minidv", 144_000, 25.0),
    format("dvcam", 144_000, 25.0),
    format("dvcpro", 144_000, 25.0),
    format("dvcpro-50", 288_000, 25.0),
    format("sd-8-bit", 720 * 486 * 2, 30.0),
    format("sd-10-bit", 720 * 486 * 8 / 3, 30.0),
];

/// Frames instead of single requests: each worker of the stream is one player or recorder with its own part of the
/// region. A frame is dropped when its response time exceeds the buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// The name of a format; without it, give `bytes` and `rate`.
    #[serde(default)]
    pub format: Option<String>,
    /// Bytes per frame.
    #[serde(default)]
    pub bytes: Option<Bytes>,
    /// Frames/s of each worker.
    #[serde(default)]
    pub rate: Option<f64>,
    #[serde(default)]
    pub buffer: Buffer,
}

/// How long after its due instant a frame may end without being dropped: a number of frames, or a time such as
/// `"500ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of frames such as 10, or a time such as \"500ms\", is needed")]
pub enum Buffer {
    Frames(f64),
    Time(Duration),
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::Frames(BUFFER_FRAMES)
    }
}

impl Frames {
    fn named(&self) -> Option<&'static VideoFormat> {
        let name = self.format.as_deref()?;
        VIDEO_FORMATS.iter().find(|format| format.name == name)
    }

    /// Bytes of a frame before it is rounded up to the alignment.
    pub fn frame_bytes(&self) -> u64 {
        self.bytes.map_or_else(|| self.named().map_or(0, |f| f.frame_bytes), |b| b.0)
    }

    /// Frames/s of each worker.
    pub fn rate_per_s(&self) -> f64 {
        self.rate.unwrap_or_else(|| self.named().map_or(0.0, |f| f.rate_per_s))
    }

    pub fn buffer_ns(&self) -> u64 {
        match self.buffer {
            Buffer::Frames(frames) => (frames * 1e9 / self.rate_per_s()) as u64,
            Buffer::Time(time) => time.ns,
        }
    }

    pub(crate) fn validate(&self, at: &str) -> Result<(), Mistake> {
        let refuse = |message: String| Err(Mistake::from(format!("{at}: {message}")));
        if let Some(name) = &self.format {
            if self.bytes.is_some() || self.rate.is_some() {
                return refuse("frames.format stands for bytes and rate; take either away".into());
            }
            if self.named().is_none() {
                let known: Vec<&str> = VIDEO_FORMATS.iter().map(|f| f.name).collect();
                return refuse(format!("frames.format {name} is none of {}", known.join(", ")));
            }
        } else if self.bytes.is_none() || self.rate.is_none() {
            return refuse("frames needs a format, or bytes and rate".into());
        }
        if self.frame_bytes() == 0 || self.frame_bytes() > crate::MAX_REQUEST_BYTES {
            return refuse(format!("frames.bytes is {}, must be 1 byte to 1GiB", self.frame_bytes()));
        }
        // A thousand frames a second is more than any camera of the kind delivers.
        if !(self.rate_per_s() > 0.0 && self.rate_per_s() <= 1000.0) {
            return refuse(format!("frames.rate {} is not between 0 and 1000 frames a second", self.rate_per_s()));
        }
        // A buffer of more than an hour hides any storage.
        if self.buffer_ns() == 0 || self.buffer_ns() > 3_600_000_000_000 {
            return refuse("frames.buffer must be longer than 0 and at most an hour".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    /// MiB/s as the guide's table has them, in the same order.
    const PUBLISHED: [f64; 14] =
        [5.49, 42.19, 52.73, 105.47, 94.92, 126.56, 118.65, 158.2, 3.43, 3.43, 3.43, 6.87, 20.02, 26.7];

    #[test]
    fn formats_have_their_published_throughput() {
        for (format, published) in VIDEO_FORMATS.iter().zip(PUBLISHED) {
            let mib_per_s = format.frame_bytes as f64 * format.rate_per_s / 1048576.0;
            assert!((mib_per_s - published).abs() <= 0.0051, "{}: {mib_per_s} against {published}", format.name);
        }
    }

    fn read(frames: &str, more: &str) -> Result<Profile, Mistake> {
        let stream = format!("[[phase.stream]]\nrequest = '1MiB'\nframes = {{ {frames} }}\n{more}");
        Profile::from_toml(&format!("title = 't'\n[[phase]]\nduration = '1s'\n{stream}"), &[])
    }

    #[test]
    fn a_buffer_is_a_time_or_a_number_of_frames() {
        for (buffer, ns) in [("", 333_333_333), (", buffer = 15", 500_000_000), (", buffer = '40ms'", 40_000_000)] {
            let plan = read(&format!("format = '1080i-8-bit'{buffer}"), "").expect("valid");
            let again = Profile::from_json(&plan.to_json()).expect("valid");
            let stream = &again.phase[0].stream[0];
            assert_eq!(stream.frames.as_ref().map(Frames::buffer_ns), Some(ns));
            assert_eq!(stream.frame_bytes(), Some(1013 * 4096));
        }
    }

    #[test]
    fn what_frames_cannot_be_is_refused_by_name() {
        for (frames, more, word) in [
            ("format = '1080x'", "", "720p-24"),
            ("format = 'dvcam', rate = 3", "", "take either away"),
            ("bytes = '1MiB'", "", "bytes and rate"),
            ("format = 'dvcam'", "think = '1s'", "think"),
            ("format = 'dvcam'", "verify = true", "verify"),
            ("format = 'dvcam'", "operations = { read = 50, write = 50 }", "operations"),
            ("format = 'dvcam', buffer = 0", "", "buffer"),
        ] {
            let error = read(frames, more).expect_err(frames).message;
            assert!(error.contains(word), "{error}");
        }
    }
}
