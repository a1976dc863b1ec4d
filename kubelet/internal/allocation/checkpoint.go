package allocation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/resize"
)

// maxCheckpoint bounds the size of a file, in bytes. It has the sizes of each container twice, and an API
// server takes pods of up to 3 MiB.
const maxCheckpoint = 8 << 20

// record holds the state of one pod that survives a restart of the kubelet.
type record struct {
	Allocated resize.Sizes `json:"allocated"`
	// Actuated holds the sizes that the runtime was last given, and Cgroup the limits that were last
	// written to the pod's cgroup.
	Actuated resize.Sizes   `json:"actuated"`
	Cgroup   *cgroup.Limits `json:"cgroup,omitempty"`
}

// checkpoint is the content of a file.
type checkpoint struct {
	// Checksum is the CRC-32 (IEEE) of Data.
	Checksum uint32          `json:"checksum"`
	Data     json.RawMessage `json:"data"`
}

func encode(r *record) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(checkpoint{crc32.ChecksumIEEE(data), data})
}

func decode(text []byte) (*record, error) {
	var c checkpoint
	if err := strictly(text, &c); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE(c.Data); sum != c.Checksum {
		return nil, fmt.Errorf("the checksum is %d, not %d", sum, c.Checksum)
	}
	r := &record{}
	if err := strictly(c.Data, r); err != nil {
		return nil, err
	}
	return r, nil
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after the end")
	}
	return nil
}

// read returns the record in a file; nil if there is no file.
func read(path string) (*record, error) {
	// Do not wait for the writer of a pipe, and do not follow a link.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCheckpoint+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxCheckpoint {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxCheckpoint)
	}
	r, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// write replaces a file. A kubelet that is killed leaves the old or the new one. A power cut may leave
// a torn one, but also ends all containers: they then start at the sizes in the spec.
func write(path string, r *record) error {
	text, err := encode(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
