package cni

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
type records struct{ dir string }

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
	return writeFile(path, data, 0o600)
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
	err := os.Remove(c.path(network, a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// list returns the recorded attachments of a network.
func (c records) list(network string) ([]Attachment, error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "results", network))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Attachment
	for _, e := range entries {
		id, ifName, ok := strings.Cut(e.Name(), "@")
		if ok && CheckName(id) == nil && CheckIfName(ifName) == nil {
			all = append(all, Attachment{id, ifName})
		}
	}
	return all, err
}
