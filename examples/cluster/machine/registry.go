package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Dir is where the records of a machine's clusters are.
const Dir = "/run/planekit"

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 20 * time.Millisecond

// Record describes the part of the machine that a cluster uses.
type Record struct {
	DataDir string       `json:"dataDir"`
	PodCIDR netip.Prefix `json:"podCIDR"`
	// Machines is the range of the addresses of machines in namespaces. It is not valid if there are none.
	Machines netip.Prefix `json:"machines,omitzero"`
}

// Registry is the records of all clusters of a machine. Lock guards all of its
// other methods, also against other processes.
type Registry struct {
	dir string
	// held are the records claimed by this process, by identity. Their locks end
	// with the process.
	held map[string]*os.File
}

var identity = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Open makes the directory of records if it is missing.
func Open(dir string) (*Registry, error) {
	r := &Registry{dir: dir, held: map[string]*os.File{}}
	if err := os.MkdirAll(r.records(), 0o755); err != nil {
		return nil, fmt.Errorf("records of clusters: %w", err)
	}
	return r, nil
}

func (r *Registry) records() string         { return filepath.Join(r.dir, "clusters") }
func (r *Registry) record(id string) string { return filepath.Join(r.records(), id) }

// Lock keeps other processes from choosing and removing until unlock is called.
func (r *Registry) Lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(r.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for !tryLock(file) {
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another cluster is being started or stopped: %w", ctx.Err()), file.Close())
		case <-time.After(lockPoll):
		}
	}
	return func() { file.Close() }, nil
}

func tryLock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// Claim records what the cluster id has, and holds the record until Release.
func (r *Registry) Claim(id string, record Record) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	file := r.held[id]
	if file == nil {
		if file, err = os.OpenFile(r.record(id), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			return fmt.Errorf("record of the cluster: %w", err)
		}
		if !tryLock(file) {
			return errors.Join(fmt.Errorf("another process runs cluster %s", id), file.Close())
		}
		r.held[id] = file
	}
	if err := errors.Join(file.Truncate(0), rewrite(file, data)); err != nil {
		return fmt.Errorf("record of the cluster: %w", err)
	}
	return nil
}

func rewrite(file *os.File, data []byte) error {
	_, err := file.WriteAt(data, 0)
	return err
}

// Release forgets the cluster id, of which nothing is left.
func (r *Registry) Release(id string) error {
	err := os.Remove(r.record(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if file := r.held[id]; file != nil {
		delete(r.held, id)
		err = errors.Join(err, file.Close())
	}
	return err
}

// all returns the records that can be read, by identity. A record that is torn
// says nothing of its data directory, and so has an owner only while it is held.
func (r *Registry) all() (map[string]Record, error) {
	entries, err := os.ReadDir(r.records())
	if err != nil {
		return nil, fmt.Errorf("records of clusters: %w", err)
	}
	records := map[string]Record{}
	for _, e := range entries {
		if !identity.MatchString(e.Name()) {
			continue
		}
		var record Record
		if data, err := os.ReadFile(r.record(e.Name())); err == nil {
			_ = json.Unmarshal(data, &record) // torn: see above
		}
		records[e.Name()] = record
	}
	return records, nil
}

// owned reports whether a process runs the cluster, or could take it over.
func (r *Registry) owned(id string, record Record) bool {
	if data, err := os.ReadFile(filepath.Join(record.DataDir, "id")); record.DataDir != "" && err == nil && strings.TrimSpace(string(data)) == id {
		return true
	}
	file, err := os.Open(r.record(id))
	if err != nil {
		return false
	}
	defer file.Close()
	return !tryLock(file)
}
