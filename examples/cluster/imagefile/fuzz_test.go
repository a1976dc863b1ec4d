package imagefile

import (
	"bytes"
	"io"
	"testing"
)

// FuzzImages reads archives: whatever is in them, each image has the manifest of its digest and blobs of the sizes that it
// says, or there is an error.
func FuzzImages(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(pack(f, saved(f, "amd64", map[string]string{"a/layer.tar": "-> ../b.tar", "b.tar": "first"}, "a/layer.tar", "b.tar")))
	f.Add(tarOf(f, writeLayout(f, member{indexOf(member{testImage(f, amd64, "first"), nil, &amd64}), map[string]string{nameAnnotation: "x:1"}, nil})))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := scan(bytes.NewReader(data))
		if err != nil {
			return
		}
		file := File{&archive{data: bytes.NewReader(data), entries: entries}}
		images, err := file.Images(amd64)
		if err != nil {
			return
		}
		for _, image := range images {
			if err := verify(image.Descriptor.Digest, image.Manifest); err != nil {
				t.Errorf("manifest %v", err)
			}
			for _, blob := range image.Blobs {
				content, err := image.Open(blob)
				if err != nil {
					t.Fatalf("Open(%v) = %v", blob.Digest, err)
				}
				if n, err := io.Copy(io.Discard, content); err != nil || n != blob.Size {
					t.Errorf("Open(%v) has %d bytes, %v, want %d", blob.Digest, n, err, blob.Size)
				}
				content.Close()
			}
		}
	})
}
