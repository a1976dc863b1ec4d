package imagefile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	// Annotations of images in an index: a name as containerd and Docker have it, and a name or a tag
	// (https://github.com/opencontainers/image-spec/blob/main/annotations.md).
	nameAnnotation = "io.containerd.image.name"
	refAnnotation  = "org.opencontainers.image.ref.name"

	// maxDepth bounds indexes in indexes, and maxManifests the manifests that are read for one image.
	maxDepth     = 4
	maxManifests = 1000
)

// readLayout returns the images of an OCI image layout with the given index.json.
func readLayout(all files, data []byte, platform v1.Platform) ([]*Image, error) {
	index, err := parse[v1.IndexManifest]("index.json", data)
	if err != nil {
		return nil, err
	}
	// Manifests with one name, or with none, are one image for several platforms.
	var refs []string
	groups := map[string][]v1.Descriptor{}
	for _, d := range index.Manifests {
		ref := d.Annotations[nameAnnotation]
		if ref == "" {
			ref = d.Annotations[refAnnotation]
		}
		if groups[ref] == nil {
			refs = append(refs, ref)
		}
		groups[ref] = append(groups[ref], d)
	}
	var images []*Image
	for _, ref := range refs {
		c := chooser{files: all, platform: platform}
		image, err := c.choose(groups[ref], 0)
		if err != nil {
			return nil, err
		}
		switch {
		case image == nil && len(c.have) > 0:
			return nil, &PlatformError{Image: ref, Want: platform, Have: c.have}
		case image == nil:
			continue // something that is stored like an image
		}
		digest := image.Descriptor.Digest
		if at := slices.IndexFunc(images, func(i *Image) bool { return i.Descriptor.Digest == digest }); at >= 0 {
			image = images[at]
		} else {
			images = append(images, image)
		}
		switch {
		case strings.ContainsAny(ref, "/:@"):
			image.Names = append(image.Names, ref)
		case ref != "":
			image.Tag = ref
		}
	}
	return images, nil
}

// chooser looks for an image for a platform.
type chooser struct {
	files    files
	platform v1.Platform
	have     []v1.Platform // of the images that are not for it
	read     int           // manifests read
}

// choose returns the first of the manifests, which may be indexes, that is for the platform; nil if there is none.
func (c *chooser) choose(manifests []v1.Descriptor, depth int) (*Image, error) {
	if depth == maxDepth {
		return nil, fmt.Errorf("%d indexes are in each other", depth)
	}
	for _, d := range manifests {
		if !d.MediaType.IsIndex() && !d.MediaType.IsImage() {
			continue
		}
		if p := d.Platform; p != nil && p.OS != "" && !fits(*p, c.platform) {
			c.miss(*p)
			continue
		}
		if c.read++; c.read > maxManifests {
			return nil, fmt.Errorf("more than %d manifests", maxManifests)
		}
		data, err := document(c.files, blobPath(d.Digest))
		if err != nil {
			return nil, fmt.Errorf("manifest %v: %w", d.Digest, err)
		}
		if err := verify(d.Digest, data); err != nil {
			return nil, fmt.Errorf("manifest %w", err)
		}
		var image *Image
		if d.MediaType.IsIndex() {
			var index *v1.IndexManifest
			if index, err = parse[v1.IndexManifest](d.Digest.String(), data); err == nil {
				image, err = c.choose(index.Manifests, depth+1)
			}
		} else {
			image, err = c.image(d, data)
		}
		if image != nil || err != nil {
			return image, err
		}
	}
	return nil, nil
}

// miss records a platform that an image is for.
func (c *chooser) miss(p v1.Platform) {
	known := func(h v1.Platform) bool { return h.Equals(p) }
	if p.OS != "unknown" && !slices.ContainsFunc(c.have, known) { // an attestation, which is stored like an image
		c.have = append(c.have, p)
	}
}

// image returns the image with a manifest; nil if it is for another platform.
func (c *chooser) image(d v1.Descriptor, data []byte) (*Image, error) {
	manifest, err := parse[v1.Manifest](d.Digest.String(), data)
	if err != nil {
		return nil, err
	}
	if !manifest.Config.MediaType.IsConfig() {
		return nil, nil
	}
	config, err := document(c.files, blobPath(manifest.Config.Digest))
	if err != nil {
		return nil, fmt.Errorf("configuration %v: %w", manifest.Config.Digest, err)
	}
	if err := verify(manifest.Config.Digest, config); err != nil {
		return nil, fmt.Errorf("configuration %w", err)
	}
	platform, err := parse[v1.Platform](manifest.Config.Digest.String(), config)
	if err != nil {
		return nil, err
	}
	if !fits(*platform, c.platform) {
		c.miss(v1.Platform{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant})
		return nil, nil
	}
	blobs := append([]v1.Descriptor{manifest.Config}, manifest.Layers...)
	var missing error
	for _, blob := range blobs {
		file, size, err := c.files.open(blobPath(blob.Digest))
		switch {
		case err != nil:
			missing = errors.Join(missing, err)
			continue
		case size != blob.Size:
			missing = errors.Join(missing, fmt.Errorf("%v has %d bytes, its manifest says %d", blob.Digest, size, blob.Size))
		}
		file.Close()
	}
	if missing != nil {
		return nil, fmt.Errorf("manifest %v: %w", d.Digest, missing)
	}
	return &Image{
		Descriptor: v1.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: int64(len(data))}, Manifest: data, Blobs: blobs,
		open: func(digest v1.Hash) (io.ReadCloser, error) {
			file, _, err := c.files.open(blobPath(digest))
			return file, err
		},
	}, nil
}

// blobPath returns where a layout has a blob.
func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
