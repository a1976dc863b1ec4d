package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// dataDir is the cluster's directory, locked for this process.
type dataDir struct {
	path string
	// id distinguishes the clusters of one machine: it is part of the names of bridges
	// and cgroups.
	id   string
	lock *os.File
}

var clusterID = regexp.MustCompile(`^[0-9a-f]{8}$`)

// openDataDir makes the directory, or takes over the one there is.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// The kernel drops the lock however the process ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory %s is in use by another cluster", path)
	}
	id, err := identity(filepath.Join(path, "id"))
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return &dataDir{path: path, id: id, lock: lock}, nil
}

func (d *dataDir) join(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

func (d *dataDir) close() error { return d.lock.Close() }

// identity reads the cluster's identity, or makes one. It replaces an empty file, which a
// first start on a full disk leaves.
func identity(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(data) > 0 {
		id := strings.TrimSpace(string(data))
		if !clusterID.MatchString(id) {
			return "", fmt.Errorf("%s: not a cluster's identity, which is eight hexadecimal digits; "+
				"write the one there was, or remove the file and what the cluster has left on this machine", file)
		}
		return id, nil
	}
	var random [4]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	id := hex.EncodeToString(random[:])
	return id, writeWhole(file, []byte(id+"\n"))
}

// writeWhole writes a file that holds all of data or does not exist, whenever the
// machine stops.
func writeWhole(file string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // there is none once it was renamed
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
