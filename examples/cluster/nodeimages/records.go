package nodeimages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Kind says how a node runs containers.
type Kind string

// The kinds of nodes.
const (
	// Containerd is a node with a runtime at a socket.
	Containerd Kind = "runtime"
	// Simulated is a node whose containers are simulated.
	Simulated Kind = "simulated"
	// Machine is a node on a machine in namespaces of its own, whose process has a data directory.
	Machine Kind = "machine"
)

// Records are the nodes of a cluster, in its data directory.
type Records struct{ dir string }

// recordsDir is the directory of records in a data directory.
const recordsDir = "runtimes"

// NewRecords returns the records in a data directory, without those of an earlier run.
func NewRecords(dataDir string) (Records, error) {
	r := Records{filepath.Join(dataDir, recordsDir)}
	return r, errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o700))
}

// Add records a node. Its location is the path of its socket or of its data directory, or empty.
func (r Records) Add(node string, kind Kind, location string) error {
	return os.WriteFile(filepath.Join(r.dir, node), fmt.Appendf(nil, "%s %s\n", kind, location), 0o600)
}

// node is a node of a running cluster.
type node struct {
	name string
	// socket is the path of its runtime's socket, for this process; empty if containers are simulated.
	socket string
}

// errNotRunning means that no process has the data directory.
var errNotRunning = errors.New("no cluster is running")

// findNodes returns the nodes of the cluster that runs on a data directory.
func findNodes(dataDir string) ([]node, error) {
	if !inUse(dataDir) {
		return nil, fmt.Errorf("%w with the data directory %s; start it, or name another one with --data-dir", errNotRunning, dataDir)
	}
	nodes, err := readRecords(dataDir, "")
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("the cluster with the data directory %s has no nodes here: give the data directory of a node, on its machine", dataDir)
	}
	return nodes, err
}

// inUse reports whether a process has a data directory open. It does not take the lock where none runs, unless for a moment.
func inUse(dataDir string) bool {
	lock, err := os.Open(filepath.Join(dataDir, "lock"))
	if err != nil {
		return false
	}
	defer lock.Close()
	return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// readRecords returns the nodes with records in a data directory, whose sockets are below root.
func readRecords(dataDir, root string) ([]node, error) {
	records, err := os.ReadDir(filepath.Join(dataDir, recordsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var nodes []node
	for _, record := range records {
		text, err := os.ReadFile(filepath.Join(dataDir, recordsDir, record.Name()))
		if err != nil {
			return nil, err
		}
		kind, location, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
		switch Kind(kind) {
		case Simulated:
			nodes = append(nodes, node{name: record.Name()})
		case Containerd:
			nodes = append(nodes, node{name: record.Name(), socket: filepath.Join("/", root, location)})
		case Machine:
			inside, err := readMachine(record.Name(), location)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, inside...)
		}
	}
	return slices.Clip(nodes), nil
}

// readMachine returns the node of a machine, whose files are seen through its first process.
func readMachine(name, dataDir string) ([]node, error) {
	pid, err := os.ReadFile(filepath.Join(dataDir, "machine.pid"))
	if err != nil {
		return nil, fmt.Errorf("the machine %s is off", name)
	}
	return readRecords(dataDir, "/proc/"+strings.TrimSpace(string(pid))+"/root")
}
