package cni

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Attachment identifies the result of one ADD within a network.
type Attachment struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// record is the stored state of an attachment. It is written before the first plugin runs, so that
// a crash leaves no unknown attachment, and again with the result.
type record struct {
	Network      string         `json:"network"`
	ContainerID  string         `json:"containerID"`
	IfName       string         `json:"ifName"`
	NetNS        string         `json:"netns,omitempty"`
	Args         Args           `json:"args,omitempty"`
	Capabilities map[string]any `json:"capabilities,omitempty"`
	// Result is the result of the last plugin, in the list's version; empty while ADD runs.
	Result json.RawMessage `json:"result,omitempty"`
}

// records is a directory with one file for each attachment.
type records struct {
	dir string
	// step is called after each change of the disk; a test ends the call there as a kill would. Nil
	// does nothing.
	step func()
}

// path is unique for an attachment: a container ID contains no '@', and a network is a directory.
func (c records) path(network string, a Attachment) string {
	return filepath.Join(c.dir, "results", network, a.ContainerID+"@"+a.IfName)
}

func (c records) write(r record) error {
	path := c.path(r.Network, Attachment{r.ContainerID, r.IfName})
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// The container's lock excludes other writers. A name that a next write uses again leaves one file at
	// most of all writers that were killed, and remove finds it.
	temporary := temporaryPath(path)
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	c.stepped()
	err = os.Rename(temporary, path)
	c.stepped()
	return err
}

func (c records) stepped() {
	if c.step != nil {
		c.step()
	}
}

// temporaryPath is the name of a record that is being written. It begins with a character that no
// container ID begins with.
func temporaryPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}

// read returns the record of an attachment, and whether it exists. An incomplete record has no
// result.
func (c records) read(network string, a Attachment) (record, bool, error) {
	data, err := os.ReadFile(c.path(network, a))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, err
	}
	var r record
	if json.Unmarshal(data, &r) != nil {
		r = record{}
	}
	r.Network, r.ContainerID, r.IfName = network, a.ContainerID, a.IfName
	return r, true, nil
}

func (c records) remove(network string, a Attachment) error {
	path := c.path(network, a)
	for _, name := range []string{temporaryPath(path), path} { // the record last: it says that there is more
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.stepped()
	}
	return nil
}

// list returns the recorded attachments of a network, also of records that were not written to the end.
func (c records) list(network string) ([]Attachment, error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "results", network))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Attachment
	for _, e := range entries {
		name := e.Name()
		if rest, temporary := strings.CutPrefix(name, "."); temporary {
			name = strings.TrimSuffix(rest, ".tmp")
		}
		id, ifName, ok := strings.Cut(name, "@")
		a := Attachment{id, ifName}
		if ok && CheckName(id) == nil && CheckIfName(ifName) == nil && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, err
}
