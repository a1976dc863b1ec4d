// Package datadir is the data directory of a cluster. It belongs to one process at a time, and keeps what the
// cluster must find again: its identity, the administrator's token, and the range of pod addresses.
//
//	dir, err := datadir.Open(path)
//	tokens, err := dir.Tokens()
//	...
//	err = dir.Close()
//
// # Files
//
//	DIR/lock         held by the process that has the directory open, whose number is in it
//	DIR/id           the identity: eight hexadecimal digits
//	DIR/tokens.csv   the administrator's token, made once, and those that an operator adds
//	DIR/pod-cidr     the range of pod addresses of the last run
//
// A file is written whole or not at all, also when the disk is full or the machine stops.
package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/wholefile"
	"github.com/planekit/planekit/plane/credentials"
)

// Dir is a data directory, locked for this process.
type Dir struct {
	path string
	id   string
	lock *os.File
}

var clusterID = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Open makes the directory, or takes over the one there is.
func Open(path string) (*Dir, error) {
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
	sign(lock)
	id, err := identity(filepath.Join(path, "id"))
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return &Dir{path: path, id: id, lock: lock}, nil
}

// sign writes this process's number into the lock, and what it is the number in. A full disk has no room for it, and the
// cluster starts.
func sign(lock *os.File) {
	if lock.Truncate(0) == nil {
		_, _ = lock.WriteAt(fmt.Appendln(nil, os.Getpid(), namespace()), 0)
	}
}

// namespace names the namespace in which this process has its number; empty on systems without them.
func namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// Holder returns the number of the process that has the directory open; 0 if there is none. It fails if that is in another
// namespace of processes, as the nodes of a cluster on machines are.
func Holder(path string) (int, error) {
	lock, err := os.Open(filepath.Join(path, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("data directory: %w", err)
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return 0, nil
	}
	text, err := os.ReadFile(lock.Name())
	if err != nil {
		return 0, err
	}
	number, in, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("%s does not say which process holds it: %w", lock.Name(), err)
	}
	if in != namespace() {
		return 0, fmt.Errorf("data directory %s is that of a node on a machine, which stops with its cluster", path)
	}
	return pid, nil
}

// Path returns the path that the directory was opened with.
func (d *Dir) Path() string { return d.path }

// ID returns the identity, which distinguishes the clusters of one machine: it is part of the names of bridges
// and cgroups.
func (d *Dir) ID() string { return d.id }

// Join returns the path of a file in the directory.
func (d *Dir) Join(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Close lets another process open the directory.
func (d *Dir) Close() error { return d.lock.Close() }

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
	return id, wholefile.Write(file, []byte(id+"\n"), 0o600)
}

// Tokens returns the tokens of the directory, after it has made one for the administrator if there are none.
func (d *Dir) Tokens() (authn.Authenticator, error) {
	file := d.Join("tokens.csv")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		var random [32]byte
		rand.Read(random[:]) // never fails (crypto/rand)
		data = fmt.Appendf(nil, "%s,%s,,%q\n", hex.EncodeToString(random[:]), credentials.Administrator, user.Masters)
		err = wholefile.Write(file, data, 0o600)
	}
	if err != nil {
		return nil, err
	}
	tokens, err := tokenfile.Read(data)
	if err != nil {
		return nil, fmt.Errorf("tokens.csv in the data directory: %w", err)
	}
	return tokens, nil
}

// podNetworkFile has the range of the pods' addresses.
const podNetworkFile = "pod-cidr"

// PodNetwork returns the range that was kept last. It is not valid if there is none; if the file is torn, the log
// says so.
func (d *Dir) PodNetwork(log logr.Logger) (netip.Prefix, error) {
	file := d.Join(podNetworkFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return netip.Prefix{}, nil
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("data directory: %w", err)
	}
	kept, err := netip.ParsePrefix(strings.TrimSpace(string(data)))
	if err != nil {
		log.Error(err, "the range of pods is chosen again", "file", file)
		return netip.Prefix{}, nil
	}
	return kept, nil
}

// KeepPodNetwork keeps the range for the next run.
func (d *Dir) KeepPodNetwork(network netip.Prefix) error {
	return wholefile.Write(d.Join(podNetworkFile), []byte(network.String()+"\n"), 0o600)
}
