//! File names in SQL: patterns, and the format and compression that follow from a name.

use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};
use std::fs::File;
use std::path::{Component, Path, PathBuf};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    Csv,
    Parquet,
    Json,
    Arrow,
}

/// Name endings, their format and what separates columns there.
const EXTENSIONS: [(&str, FileFormat); 9] = [
    ("csv", FileFormat::Csv),
    ("tsv", FileFormat::Csv),
    ("parquet", FileFormat::Parquet),
    ("json", FileFormat::Json),
    ("jsonl", FileFormat::Json),
    ("ndjson", FileFormat::Json),
    ("arrow", FileFormat::Arrow),
    ("arrows", FileFormat::Arrow),
    ("feather", FileFormat::Arrow),
];

const COMPRESSIONS: [(&str, FileCompressionType); 5] = [
    ("gz", FileCompressionType::GZIP),
    ("zst", FileCompressionType::ZSTD),
    ("zstd", FileCompressionType::ZSTD),
    ("bz2", FileCompressionType::BZIP2),
    ("xz", FileCompressionType::XZ),
];

impl FileFormat {
    /// Returns the format that the name ends in, before a compression suffix.
    pub fn from_path(path: &str) -> Option<Self> {
        let ending = extension(path)?;
        EXTENSIONS.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format)
    }

    /// Returns the format of that name, as in `FORMAT csv`.
    ///
    /// # Errors
    /// `InvalidInput` for any other name.
    pub fn from_name(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        EXTENSIONS.iter().find(|(known, _)| *known == lower).map(|(_, format)| *format).ok_or_else(|| {
            let known = ["csv", "parquet", "json", "arrow"];
            Error::invalid_input(format!(
                "no file format \"{name}\"{}; there are {}",
                did_you_mean(name, known),
                known.join(", ")
            ))
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Json => "json",
            Self::Arrow => "arrow",
        }
    }
}

/// Returns the ending without a compression suffix, in lower case.
pub fn extension(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.to_ascii_lowercase();
    let (stem, ending) = name.rsplit_once('.')?;
    if COMPRESSIONS.iter().any(|(suffix, _)| *suffix == ending) {
        return stem.rsplit_once('.').map(|(_, ending)| ending.to_string());
    }
    Some(ending.to_string())
}

/// Returns the compression that the name ends in.
pub fn compression_from_path(path: &Path) -> FileCompressionType {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    COMPRESSIONS
        .iter()
        .find(|(suffix, _)| ending.as_deref() == Some(*suffix))
        .map_or(FileCompressionType::UNCOMPRESSED, |(_, compression)| *compression)
}

/// Says whether a table name that no table has should be looked for as a file.
pub fn looks_like_path(name: &str) -> bool {
    FileFormat::from_path(name).is_some() || name.contains(['/', '*', '?'])
}

/// Opens a file as it is.
///
/// # Errors
/// `NotFound`, `Io`, or `InvalidInput` for a path that is a directory.
pub fn open_plain(path: &Path) -> Result<File> {
    let file = File::open(path)
        .map_err(|error| Error::from_io(&error, format!("cannot open \"{}\"", path.display())))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(directory(path));
    }
    Ok(file)
}

fn directory(path: &Path) -> Error {
    let path = path.display();
    Error::invalid_input(format!("\"{path}\" is a directory; name its files, as in '{path}/*.parquet'"))
}

/// Returns the files that some names and patterns stand for, in the order given, those of one
/// pattern sorted.
///
/// `*` and `?` match within one name, `[…]` one of a set of characters, and `**` any directories.
///
/// # Errors
/// `NotFound`, with the pattern, when one of them matches no file; `Unsupported` for a URL.
pub fn expand(patterns: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let local = local_path(pattern)?;
        if local.exists() {
            if local.is_dir() {
                return Err(directory(&local));
            }
            files.push(local);
            continue;
        }
        if !pattern.contains(['*', '?', '[']) {
            return Err(Error::new(ErrorKind::NotFound, format!("no file \"{pattern}\"")));
        }
        let mut found = Vec::new();
        let parts: Vec<Component<'_>> = local.components().collect();
        walk(PathBuf::new(), &parts, &mut found);
        if found.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("no file matches \"{pattern}\"")));
        }
        found.sort();
        found.dedup();
        files.extend(found);
    }
    Ok(files)
}

/// Returns the path on this machine that a name in SQL means.
///
/// # Errors
/// `Unsupported` for a URL other than `file://`.
pub fn local_path(name: &str) -> Result<PathBuf> {
    if let Some(path) = name.strip_prefix("file://") {
        return Ok(PathBuf::from(path));
    }
    if let Some((scheme, _)) = name.split_once("://") {
        return Err(Error::unsupported(format!(
            "\"{name}\": files are read from this machine only, not by {scheme}"
        )));
    }
    match (name.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        _ => Ok(PathBuf::from(name)),
    }
}

fn walk(base: PathBuf, parts: &[Component<'_>], found: &mut Vec<PathBuf>) {
    let Some((part, rest)) = parts.split_first() else {
        if base.is_file() {
            found.push(base);
        }
        return;
    };
    let pattern = part.as_os_str().to_string_lossy();
    if !pattern.contains(['*', '?', '[']) {
        let next = base.join(part);
        if next.exists() {
            walk(next, rest, found);
        }
        return;
    }
    let any_depth = pattern == "**";
    if any_depth {
        walk(base.clone(), rest, found);
    }
    let directory = if base.as_os_str().is_empty() { Path::new(".") } else { base.as_path() };
    // What cannot be listed cannot match; opening a named file reports such errors.
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let hidden = text.starts_with('.') && !pattern.starts_with('.');
        if hidden {
            continue;
        }
        if any_depth {
            // A linked directory may lead back up: `**` does not follow it.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(base.join(&name), parts, found);
            }
        } else if matches(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>()) {
            walk(base.join(&name), rest, found);
        }
    }
}

fn matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some('*'), _) => matches(&pattern[1..], name) || (!name.is_empty() && matches(pattern, &name[1..])),
        (Some('?'), Some(_)) => matches(&pattern[1..], &name[1..]),
        (Some('['), Some(character)) => match pattern.iter().position(|c| *c == ']') {
            Some(end) => in_set(&pattern[1..end], *character) && matches(&pattern[end + 1..], &name[1..]),
            None => *character == '[' && matches(&pattern[1..], &name[1..]),
        },
        (Some(wanted), Some(character)) => wanted == character && matches(&pattern[1..], &name[1..]),
        _ => false,
    }
}

fn in_set(set: &[char], character: char) -> bool {
    let (negated, mut set) = match set {
        ['!' | '^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    while let Some(first) = set.first() {
        if let [low, '-', high, ..] = set {
            found |= (*low..=*high).contains(&character);
            set = &set[3..];
        } else {
            found |= *first == character;
            set = &set[1..];
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    #[test]
    fn formats_and_compression_come_from_the_name() {
        assert_eq!(FileFormat::from_path("a/b.CSV.gz"), Some(FileFormat::Csv));
        assert_eq!(FileFormat::from_path("b.ndjson"), Some(FileFormat::Json));
        assert_eq!(FileFormat::from_path("orders"), None);
        assert_eq!(compression_from_path(Path::new("b.json.zst")), FileCompressionType::ZSTD);
        assert!(looks_like_path("data/x") && looks_like_path("*.what") && !looks_like_path("orders"));
        assert!(FileFormat::from_name("parqet").unwrap_err().message().contains("did you mean \"parquet\"?"));
    }

    #[test]
    fn patterns_find_their_files_and_no_others() {
        let directory = TestDirectory::new("glob");
        for name in ["a1.csv", "a2.csv", "b1.csv", "x/c.csv", "x/y/d.csv", ".h.csv", "x/e.json"] {
            directory.write(name, "n\n1\n");
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = expand(&[directory.path(pattern)]).unwrap();
            let root = directory.path("");
            found.iter().map(|file| file.to_string_lossy().replace(&root, "")).collect()
        };
        assert_eq!(names("a?.csv"), ["a1.csv", "a2.csv"]);
        assert_eq!(names("[!a]*.csv"), ["b1.csv"]);
        assert_eq!(names("[a-b]1.csv"), ["a1.csv", "b1.csv"]);
        assert_eq!(names("*/*.csv"), ["x/c.csv"]);
        assert_eq!(names("**/*.csv"), ["a1.csv", "a2.csv", "b1.csv", "x/c.csv", "x/y/d.csv"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = expand(&["no/such.csv".into()]).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "no file \"no/such.csv\""));
        let error = expand(&["no/*.csv".into()]).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "no file matches \"no/*.csv\""));
        assert_eq!(expand(&["s3://a/b.csv".into()]).unwrap_err().kind(), ErrorKind::Unsupported);
        let directory = TestDirectory::new("directory");
        assert!(expand(&[directory.path("")]).unwrap_err().message().contains("is a directory"));
    }
}
