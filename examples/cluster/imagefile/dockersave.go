package imagefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// savedImage is an image in the manifest.json of docker save.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// readDockerSave returns the images of an archive of docker save with the given manifest.json.
func readDockerSave(all files, data []byte, platform v1.Platform) ([]*Image, error) {
	saved, err := parse[[]savedImage]("manifest.json", data)
	if err != nil {
		return nil, err
	}
	r := saveReader{files: all, platform: platform, layers: map[string]v1.Descriptor{}, paths: map[v1.Hash]string{}}
	var images []*Image
	for _, s := range *saved {
		image, err := r.image(s)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}

// saveReader reads an archive of docker save, whose blobs have paths rather than digests.
type saveReader struct {
	files    files
	platform v1.Platform
	layers   map[string]v1.Descriptor // by path
	paths    map[v1.Hash]string       // of blobs
}

// image makes the manifest of an image, which the archive does not have.
func (r *saveReader) image(s savedImage) (*Image, error) {
	name := s.Config
	if len(s.RepoTags) > 0 {
		name = s.RepoTags[0]
	}
	text, err := document(r.files, s.Config)
	if err != nil {
		return nil, fmt.Errorf("image %s: configuration: %w", name, err)
	}
	config, err := parse[v1.ConfigFile](s.Config, text)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", name, err)
	}
	if have := (v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}); !fits(have, r.platform) {
		return nil, &PlatformError{Image: name, Want: r.platform, Have: []v1.Platform{have}}
	}
	if len(config.RootFS.DiffIDs) != len(s.Layers) {
		return nil, fmt.Errorf("image %s has %d layers, its configuration says %d", name, len(s.Layers), len(config.RootFS.DiffIDs))
	}
	digest, size, err := v1.SHA256(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.paths[digest] = s.Config
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.DockerManifestSchema2,
		Config: v1.Descriptor{MediaType: types.DockerConfigJSON, Digest: digest, Size: size},
	}
	for i, path := range s.Layers {
		layer, err := r.layer(path)
		if err != nil {
			return nil, fmt.Errorf("image %s: layer %s: %w", name, path, err)
		}
		if want := config.RootFS.DiffIDs[i]; layer.MediaType == types.DockerUncompressedLayer && layer.Digest != want {
			return nil, fmt.Errorf("image %s: layer %s is damaged: its digest is %v, not %v", name, path, layer.Digest, want)
		}
		manifest.Layers = append(manifest.Layers, layer)
	}
	if text, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	if digest, size, err = v1.SHA256(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	return &Image{
		Names: s.RepoTags, Descriptor: v1.Descriptor{MediaType: manifest.MediaType, Digest: digest, Size: size}, Manifest: text,
		Blobs: append([]v1.Descriptor{manifest.Config}, manifest.Layers...),
		open: func(digest v1.Hash) (io.ReadCloser, error) {
			file, _, err := r.files.open(r.paths[digest])
			return file, err
		},
	}, nil
}

// layer describes the layer at a path, which it reads.
func (r *saveReader) layer(path string) (v1.Descriptor, error) {
	if known, ok := r.layers[path]; ok {
		return known, nil
	}
	file, _, err := r.files.open(path)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer file.Close()
	var magic [2]byte
	n, err := io.ReadFull(file, magic[:])
	if err != nil && n == 0 {
		return v1.Descriptor{}, err
	}
	layer := v1.Descriptor{MediaType: types.DockerUncompressedLayer}
	if magic == [2]byte{0x1f, 0x8b} {
		layer.MediaType = types.DockerLayer
	}
	if layer.Digest, layer.Size, err = v1.SHA256(io.MultiReader(bytes.NewReader(magic[:n]), file)); err != nil {
		return v1.Descriptor{}, err
	}
	r.layers[path], r.paths[layer.Digest] = layer, path
	return layer, nil
}
