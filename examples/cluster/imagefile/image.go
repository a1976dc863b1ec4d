package imagefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is an image for one platform.
type Image struct {
	// Names are the names that the file has for the image, such as nginx:1 or docker.io/library/nginx:1. There may be none.
	Names []string
	// Tag is the tag that the file has for the image where it has no name; empty if there is none.
	Tag string
	// Descriptor describes the manifest, and Manifest is its text.
	Descriptor v1.Descriptor
	Manifest   []byte
	// Blobs are the configuration and the layers, in this order.
	Blobs []v1.Descriptor

	open func(v1.Hash) (io.ReadCloser, error)
}

// Open returns the contents of one of Blobs, which the caller closes.
func (i *Image) Open(blob v1.Descriptor) (io.ReadCloser, error) { return i.open(blob.Digest) }

// File is an open file with images.
type File struct{ files files }

// Open opens an archive or the directory of a layout.
func Open(path string) (*File, error) {
	files, err := openFiles(path)
	if err != nil {
		return nil, named(path, err)
	}
	return &File{files: files}, nil
}

// named returns err with the path, once.
func named(path string, err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) && pathError.Path == path {
		return fmt.Errorf("%s: %w", path, pathError.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Close closes the file. Images can no longer be read.
func (f *File) Close() error { return f.files.Close() }

// PlatformError reports that an image does not run on the wanted platform.
type PlatformError struct {
	// Image is a name of the image; it may be empty.
	Image string
	Want  v1.Platform
	// Have are the platforms that the image is for.
	Have []v1.Platform
}

func (e *PlatformError) Error() string {
	image := "the image"
	if e.Image != "" {
		image = "image " + e.Image
	}
	var have []string
	for _, platform := range e.Have {
		have = append(have, platform.String())
	}
	return fmt.Sprintf("%s is not for this machine, which is %v; it is for %s", image, e.Want, strings.Join(have, ", "))
}

// Images returns the images of the file for a platform. Each image must be for it.
func (f *File) Images(platform v1.Platform) ([]*Image, error) {
	// Newer archives of docker save have both indexes; that of the layout says more.
	for _, format := range []struct {
		index string
		read  func(files, []byte, v1.Platform) ([]*Image, error)
	}{{"index.json", readLayout}, {"manifest.json", readDockerSave}} {
		index, err := document(f.files, format.index)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		images, err := format.read(f.files, index, platform)
		if err == nil && len(images) == 0 {
			err = fmt.Errorf("%w: %s lists none", ErrNotImages, format.index)
		}
		return images, err
	}
	return nil, fmt.Errorf("%w: it has neither index.json nor manifest.json", ErrNotImages)
}

// parse decodes a JSON document.
func parse[T any](name string, data []byte) (*T, error) {
	value := new(T)
	if err := json.Unmarshal(data, value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// verify returns an error if data is not what a digest stands for.
func verify(digest v1.Hash, data []byte) error {
	got, _, err := v1.SHA256(bytes.NewReader(data))
	if err == nil && got != digest {
		err = fmt.Errorf("%v is damaged: its digest is %v", digest, got)
	}
	return err
}

// fits reports whether an image for the platform have runs on want. Variants are of instruction sets, which a Go program
// does not know of its machine.
func fits(have, want v1.Platform) bool {
	return have.OS == want.OS && have.Architecture == want.Architecture
}
