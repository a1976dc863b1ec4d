package cpumanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
)

// maxState bounds the size of the state file, which has a line for each exclusive container.
const maxState = 4 << 20

// checkpoint is the content of the state file, in the second version of Kubernetes' format.
type checkpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      uint64                       `json:"checksum"`
}

// sum returns the checksum that Kubernetes computes: FNV-1a of the struct as its debug printer shows it.
func (c *checkpoint) sum() uint64 {
	var b strings.Builder
	fmt.Fprintf(&b, "(*state.CPUManagerCheckpoint){PolicyName:(string)%s DefaultCPUSet:(string)%s Entries:(map[string]map[string]string)map[", c.PolicyName, c.DefaultCPUSet)
	for i, uid := range slices.Sorted(maps.Keys(c.Entries)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(uid + ":map[")
		for j, name := range slices.Sorted(maps.Keys(c.Entries[uid])) {
			if j > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(name + ":" + c.Entries[uid][name])
		}
		b.WriteByte(']')
	}
	b.WriteString("] Checksum:(checksum.Checksum)0}")
	hash := fnv.New32a()
	hash.Write([]byte(b.String()))
	return uint64(hash.Sum32())
}

// encode returns the content of the state file.
func encode(policy string, a assignments) ([]byte, error) {
	c := checkpoint{PolicyName: policy, DefaultCPUSet: a.shared.String(), Entries: map[string]map[string]string{}}
	for uid, containers := range a.pods {
		c.Entries[uid] = make(map[string]string, len(containers))
		for name, cpus := range containers {
			c.Entries[uid][name] = cpus.String()
		}
	}
	c.Checksum = c.sum()
	return json.Marshal(c)
}

// decode parses the content of the state file. A checksum of 0 is not verified, as in Kubernetes.
func decode(policy string, data []byte) (assignments, error) {
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return assignments{}, err
	}
	if sum := c.sum(); c.Checksum != 0 && c.Checksum != sum {
		return assignments{}, fmt.Errorf("checkpoint is corrupted: the checksum is %d, not %d", sum, c.Checksum)
	}
	if c.PolicyName != policy {
		return assignments{}, fmt.Errorf("configured policy %q differs from state checkpoint policy %q", policy, c.PolicyName)
	}
	a := assignments{pods: map[string]map[string]Set{}}
	var err error
	if a.shared, err = ParseSet(c.DefaultCPUSet); err != nil {
		return assignments{}, fmt.Errorf("could not parse default cpu set %q: %w", c.DefaultCPUSet, err)
	}
	for uid, containers := range c.Entries {
		a.pods[uid] = map[string]Set{}
		for name, list := range containers {
			if a.pods[uid][name], err = ParseSet(list); err != nil {
				return assignments{}, fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", list, name, uid, err)
			}
		}
	}
	return a, nil
}

// readState reads the state file. It returns no data if there is none. It does not follow links, nor wait for
// the writer of a pipe.
func readState(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxState:
		return nil, fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxState)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxState+1))
	if err == nil && len(data) == 0 {
		err = errors.New("it is empty")
	}
	return data, err
}
