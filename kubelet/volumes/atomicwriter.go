package volumes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names inside a volume that is written atomically. A container that reads through ..data sees all
// files of one version.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	// versionPrefix begins the names of the directories that ..data leads to.
	versionPrefix = "..version_"
)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
	// Owner is the user that the file belongs to; nil means that of this process.
	Owner *int64
}

// WriteAtomically replaces the contents of a volume by files. It writes them to a new directory and
// then switches the link ..data to it; each top-level name is a link through ..data. It does
// nothing if the files have not changed. A volume must have one writer at a time.
//
// After an error, for example on a full disk, containers still see the earlier files, all of them and
// no others, and nothing of the new ones is left behind. Contents are compared with what is on the
// disk, so that files that a power cut has damaged are written again.
//
// The paths must be local, and no first element may begin with "..", as in Kubernetes. If there is a
// group, it can read everything in the volume, and new files belong to it.
func WriteAtomically(volume string, files map[string]File, group *int64) error {
	for path := range files {
		if err := checkPath(path); err != nil {
			return err
		}
	}
	if group != nil {
		if err := shareTop(volume, *group); err != nil {
			return err
		}
	}
	old, err := os.Readlink(filepath.Join(volume, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old == "" || !same(filepath.Join(volume, old), files) {
		if old, err = writeNext(volume, files, group); err != nil {
			return err
		}
	} else if _, err := linkNames(volume, files); err != nil {
		return err
	}
	return removeOld(volume, old, files)
}

// writeNext makes a new version the contents of the volume, or leaves the volume as it was. It returns
// the name of the version.
func writeNext(volume string, files map[string]File, group *int64) (name string, err error) {
	// What an earlier kubelet did not finish may take the space that is needed now.
	old, err := os.Readlink(filepath.Join(volume, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := removeVersions(volume, old); err != nil {
		return "", err
	}
	version, err := os.MkdirTemp(volume, versionPrefix)
	if err != nil {
		return "", err
	}
	next := filepath.Join(volume, newDataLink)
	undo := []string{next}
	defer func() {
		if err == nil {
			return
		}
		for _, path := range undo {
			if failed := os.Remove(path); !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
		err = errors.Join(err, os.RemoveAll(version))
	}()
	if err := writeVersion(version, files, group); err != nil {
		return "", err
	}
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name = filepath.Base(version)
	if err := os.Symlink(name, next); err != nil {
		return "", err
	}
	// Before the switch, because a full disk may have no room for the names. Until then, the new ones
	// lead nowhere.
	linked, err := linkNames(volume, files)
	undo = append(undo, linked...)
	if err != nil {
		return "", err
	}
	return name, os.Rename(next, filepath.Join(volume, dataLink))
}

func writeVersion(version string, files map[string]File, group *int64) error {
	if err := os.Chmod(version, 0o755); err != nil {
		return err
	}
	for path, f := range files {
		full := filepath.Join(version, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.Data, 0o600); err != nil {
			return err
		}
		if f.Owner != nil {
			if err := os.Lchown(full, int(*f.Owner), -1); err != nil {
				return err
			}
		}
		if err := os.Chmod(full, f.Mode); err != nil {
			return err
		}
	}
	if group == nil {
		return nil
	}
	// Without a context: the version is what was just written.
	return setGroup(context.Background(), version, *group, false, groupRead)
}

// Limits of the length of a path, in bytes, as in Kubernetes.
const (
	maxPath = 4096
	maxName = 255
)

// checkPath returns Kubernetes' error for a path that a file of a volume must not have.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("invalid path: must not be empty: %q", path)
	case filepath.IsAbs(path):
		return fmt.Errorf("invalid path: must be relative path: %s", path)
	case len(path) > maxPath:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPath)
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." {
			return fmt.Errorf("invalid path: must not contain '..': %s", path)
		}
		if len(name) > maxName {
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxName)
		}
	}
	if strings.HasPrefix(path, "..") {
		return fmt.Errorf("invalid path: must not start with '..': %s", path)
	}
	if path != filepath.Clean(path) || path == "." {
		return fmt.Errorf("invalid path: must name a file: %q", path)
	}
	return nil
}

// tops returns the first elements of the paths.
func tops(files map[string]File) map[string]bool {
	names := map[string]bool{}
	for path := range files {
		top, _, _ := strings.Cut(path, "/")
		names[top] = true
	}
	return names
}

// linkNames creates the top-level links of the volume that are missing. It returns their paths, also
// after an error.
func linkNames(volume string, files map[string]File) (linked []string, err error) {
	for name := range tops(files) {
		path := filepath.Join(volume, name)
		err := os.Symlink(filepath.Join(dataLink, name), path)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return linked, err
		}
		linked = append(linked, path)
	}
	return linked, nil
}

// removeOld removes links whose files are gone, and all versions except keep.
func removeOld(volume, keep string, files map[string]File) error {
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	names := tops(files)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") || names[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(volume, e.Name())); err != nil {
			return err
		}
	}
	return removeVersions(volume, keep)
}

// removeVersions removes all versions except keep, including those of writers that died.
func removeVersions(volume, keep string) error {
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), versionPrefix) && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(volume, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether a version contains exactly these files.
func same(version string, files map[string]File) bool {
	have := map[string]File{}
	err := filepath.WalkDir(version, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(version, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		have[relative] = File{Data: data}
		return err
	})
	return err == nil && slices.Equal(slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(files))) &&
		func() bool {
			for path, f := range files {
				if !bytes.Equal(have[path].Data, f.Data) {
					return false
				}
			}
			return true
		}()
}
