// Package userns gives pods with a user namespace ranges of the machine's user and group IDs.
//
// A pod gets 65536 IDs, of which 0 in the pod is the first. The range is kept in the file userns in
// the pod's directory, in the format of the Kubernetes kubelet, so that it survives a restart. The
// first range of the machine belongs to the machine itself and is never given.
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/planekit/planekit/internal/wholefile"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// length is the number of IDs of a pod.
	length = 65536
	// slots is the number of ranges among 2^32 IDs, the first included.
	slots = 1 << 32 / length
	// file is the name of the file in a pod's directory, and sizeLimit its greatest size in bytes.
	file      = "userns"
	sizeLimit = 4096
)

// mappings is the content of a file.
type mappings struct {
	UIDs []mapping `json:"uidMappings"`
	GIDs []mapping `json:"gidMappings"`
}

type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// Ranges gives ranges to pods. Its methods are safe for concurrent use.
type Ranges struct {
	root string

	mu sync.Mutex
	// mu guards the fields below.
	read bool // the files below root were read
	// owners has the pod of each range by its slot, slots the reverse.
	owners map[uint32]types.UID
	slots  map[types.UID]uint32
	// next is where the search for a free slot begins, so that freed ones are used late.
	next uint32
}

// New returns the ranges of the pods whose directories are in root. It does not touch the disk.
func New(root string) *Ranges {
	return &Ranges{root: root, owners: map[uint32]types.UID{}, slots: map[types.UID]uint32{}, next: 1}
}

// Get returns the user namespace of a pod, whose directory must exist. It gives the pod a range
// unless it has one. No range is given while a file of any pod cannot be read, because its range is
// then not known to be free.
func (r *Ranges) Get(pod types.UID) (*runtimeapi.UserNamespace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.readAll(); err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	slot, has := r.slots[pod]
	if !has {
		var err error
		if slot, err = r.free(); err != nil {
			return nil, fmt.Errorf("create user namespace: %w", err)
		}
		if err := r.write(pod, slot); err != nil {
			os.Remove(filepath.Join(r.root, string(pod), file)) // it may be there, but not for good
			return nil, fmt.Errorf("create user namespace: %w", err)
		}
		r.record(pod, slot)
		r.next = slot + 1
	}
	ids := func() []*runtimeapi.IDMapping {
		return []*runtimeapi.IDMapping{{HostId: slot * length, ContainerId: 0, Length: length}}
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids(), Gids: ids()}, nil
}

// Release takes the range of a pod back. The pod's directory must have been removed.
func (r *Ranges) Release(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slot, ok := r.slots[pod]; ok {
		delete(r.slots, pod)
		delete(r.owners, slot)
	}
}

func (r *Ranges) record(pod types.UID, slot uint32) {
	r.slots[pod], r.owners[slot] = slot, pod
}

// free returns a slot without an owner.
func (r *Ranges) free() (uint32, error) {
	for i := range uint32(slots - 1) {
		slot := 1 + (r.next-1+i)%(slots-1)
		if _, used := r.owners[slot]; !used {
			return slot, nil
		}
	}
	return 0, errors.New("could not find an empty slot to allocate a user namespace")
}

// readAll records the ranges of all pods on the disk, once.
func (r *Ranges) readAll() error {
	if r.read {
		return nil
	}
	directories, err := os.ReadDir(r.root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, directory := range directories {
		pod := types.UID(directory.Name())
		slot, ok, err := readFile(filepath.Join(r.root, directory.Name(), file))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if other, taken := r.owners[slot]; taken && other != pod {
			return fmt.Errorf("pods %s and %s have the same user namespace", other, pod)
		}
		r.record(pod, slot)
	}
	r.read = true
	return nil
}

// readFile returns the slot in a file; ok is false if there is none.
func readFile(path string) (slot uint32, ok bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case !info.Mode().IsRegular():
		return 0, false, fmt.Errorf("%s is not a regular file", path)
	}
	opened, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer opened.Close()
	data, err := io.ReadAll(io.LimitReader(opened, sizeLimit+1))
	if err != nil {
		return 0, false, err
	}
	if slot, err = parse(data); err != nil {
		return 0, false, fmt.Errorf("%s: %w", path, err)
	}
	return slot, true, nil
}

// parse returns the slot in the content of a file.
func parse(data []byte) (uint32, error) {
	if len(data) > sizeLimit {
		return 0, fmt.Errorf("it is larger than %d bytes", sizeLimit)
	}
	var m mappings
	if err := json.Unmarshal(data, &m); err != nil {
		return 0, fmt.Errorf("invalid user namespace mappings file: %w", err)
	}
	if len(m.UIDs) != 1 || len(m.GIDs) != 1 {
		return 0, errors.New("invalid user namespace configuration: exactly one mapping is allowed")
	}
	one := m.UIDs[0]
	switch {
	case one != m.GIDs[0]:
		return 0, errors.New("invalid user namespace configuration: GID and UID mapping should be identical")
	case one.ContainerID != 0:
		return 0, errors.New("invalid user namespace configuration: UID 0 must be mapped")
	case one.Length != length:
		return 0, fmt.Errorf("wrong user namespace length %d", one.Length)
	case one.HostID%length != 0:
		return 0, fmt.Errorf("wrong user namespace offset specified %d", one.HostID)
	case one.HostID == 0:
		return 0, fmt.Errorf("id %d is out of range", one.HostID)
	}
	return one.HostID / length, nil
}

// write stores a range durably before it is used. A pod that was started with a range that is not on
// the disk would share it with another one after a restart.
func (r *Ranges) write(pod types.UID, slot uint32) error {
	one := []mapping{{HostID: slot * length, Length: length}}
	data, err := json.Marshal(mappings{UIDs: one, GIDs: one})
	if err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(r.root, string(pod), file), data, 0o600)
}
