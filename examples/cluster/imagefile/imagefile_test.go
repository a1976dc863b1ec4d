package imagefile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

var (
	amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = v1.Platform{OS: "linux", Architecture: "arm64"}
)

// testImage returns an image for a platform with one layer, whose text is content.
func testImage(t testing.TB, p v1.Platform, content string) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(content), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = p.OS, p.Architecture
	image, err = mutate.ConfigFile(mutate.MediaType(image, types.OCIManifestSchema1), config)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// member is an image or an index of a layout, with the annotations of its descriptor.
type member struct {
	item        mutate.Appendable
	annotations map[string]string
	platform    *v1.Platform
}

// writeLayout writes an OCI image layout and returns its directory.
func writeLayout(t testing.TB, members ...member) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, indexOf(members...)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func indexOf(members ...member) v1.ImageIndex {
	index := v1.ImageIndex(empty.Index)
	for _, m := range members {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: m.item, Descriptor: v1.Descriptor{Annotations: m.annotations, Platform: m.platform}})
	}
	return index
}

// tarOf returns a tar file with the files of a directory.
func tarOf(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pack returns a tar file with the given files; a file whose text begins with "-> " is a symbolic link.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if target, ok := strings.CutPrefix(files[name], "-> "); ok {
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, target, 0
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Size > 0 {
			if _, err := io.WriteString(w, files[name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func compress(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// digest returns the SHA-256 digest of a text.
func digest(t testing.TB, text string) string {
	t.Helper()
	hash, _, err := v1.SHA256(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// read returns, for each image of a file, its names, its tag and the texts of its layers.
func read(t testing.TB, path string, platform v1.Platform) ([][]string, error) {
	t.Helper()
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	images, err := file.Images(platform)
	if err != nil {
		return nil, err
	}
	var all [][]string
	for _, image := range images {
		if err := verify(image.Descriptor.Digest, image.Manifest); err != nil {
			t.Errorf("Images(%v): manifest %v", platform, err)
		}
		one := append(slices.Clone(image.Names), "tag="+image.Tag)
		for i, blob := range image.Blobs {
			content, err := image.Open(blob)
			if err != nil {
				return nil, err
			}
			data, err := io.ReadAll(content)
			if err := errors.Join(err, content.Close(), verify(blob.Digest, data)); err != nil {
				return nil, err
			}
			if int64(len(data)) != blob.Size {
				t.Errorf("Open(%v) has %d bytes, want %d", blob.Digest, len(data), blob.Size)
			}
			if i > 0 {
				one = append(one, string(data))
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// TestLayouts reads layouts as directories, as tar files and compressed.
func TestLayouts(t *testing.T) {
	named := func(name string) map[string]string {
		return map[string]string{nameAnnotation: name, refAnnotation: "ignored"}
	}
	ref := func(name string) map[string]string { return map[string]string{refAnnotation: name} }
	plain, other := testImage(t, amd64, "for amd64"), testImage(t, arm64, "for arm64")
	both := indexOf(member{plain, nil, &amd64}, member{other, nil, &arm64}, member{testImage(t, v1.Platform{OS: "unknown", Architecture: "unknown"}, "attestation"), nil, &v1.Platform{OS: "unknown", Architecture: "unknown"}})
	for _, test := range []struct {
		name     string
		members  []member
		platform v1.Platform
		want     [][]string
	}{
		{"no name", []member{{plain, nil, nil}}, amd64, [][]string{{"tag=", "for amd64"}}},
		{"a tag", []member{{plain, ref("latest"), nil}}, amd64, [][]string{{"tag=latest", "for amd64"}}},
		{"a name as ref", []member{{plain, ref("r.example/x:1"), nil}}, amd64, [][]string{{"r.example/x:1", "tag=", "for amd64"}}},
		{"two names", []member{{plain, named("x:1"), nil}, {plain, named("x:2"), nil}}, amd64, [][]string{{"x:1", "x:2", "tag=", "for amd64"}}},
		{"an index", []member{{both, named("x:1"), nil}}, arm64, [][]string{{"x:1", "tag=", "for arm64"}}},
		{"an index in an index", []member{{indexOf(member{both, nil, nil}), named("x:1"), nil}}, amd64, [][]string{{"x:1", "tag=", "for amd64"}}},
		{"platforms beside each other", []member{{plain, nil, &amd64}, {other, nil, &arm64}}, arm64, [][]string{{"tag=", "for arm64"}}},
		{"platforms in configurations", []member{{plain, nil, nil}, {other, nil, nil}}, arm64, [][]string{{"tag=", "for arm64"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := writeLayout(t, test.members...)
			data := tarOf(t, dir)
			for form, path := range map[string]string{"directory": dir, "tar": write(t, data), "tar.gz": write(t, compress(t, data))} {
				if got, err := read(t, path, test.platform); err != nil || !reflect.DeepEqual(got, test.want) {
					t.Errorf("images of a %s for %v: %q, %v, want %q", form, test.platform, got, err, test.want)
				}
			}
		})
	}
}

// saved returns the files of an archive of docker save with one image, whose layers are of the given texts.
func saved(t testing.TB, platform string, layers map[string]string, order ...string) map[string]string {
	t.Helper()
	var ids []string
	for _, name := range order {
		text := layers[name]
		for strings.HasPrefix(text, "-> ") {
			text = layers[filepath.Join(filepath.Dir(name), text[3:])]
		}
		if strings.HasPrefix(text, "\x1f\x8b") {
			r, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		ids = append(ids, `"`+digest(t, text)+`"`)
	}
	files := maps.Clone(layers)
	files["c.json"] = `{"os": "linux", "architecture": "` + platform + `", "rootfs": {"type": "layers", "diff_ids": [` + strings.Join(ids, ", ") + `]}}`
	files["manifest.json"] = `[{"Config": "c.json", "RepoTags": ["hello:1"], "Layers": ["` + strings.Join(order, `", "`) + `"]}]`
	return files
}

func TestDockerSave(t *testing.T) {
	zipped := string(compress(t, []byte("second")))
	for name, files := range map[string]map[string]string{
		"plain":  saved(t, "amd64", map[string]string{"a/layer.tar": "first", "b/layer.tar": "second"}, "a/layer.tar", "b/layer.tar"),
		"linked": saved(t, "amd64", map[string]string{"a/layer.tar": "-> ../b/layer.tar", "b/layer.tar": "first", "second.tar": "second"}, "a/layer.tar", "second.tar"),
		"zipped": saved(t, "amd64", map[string]string{"a.tar": "first", "b.tar.gz": zipped}, "a.tar", "b.tar.gz"),
	} {
		want := [][]string{{"hello:1", "tag=", "first", "second"}}
		if name == "zipped" {
			want[0][3] = zipped
		}
		if got, err := read(t, write(t, pack(t, files)), amd64); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: images %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestRefused: what is not an image for this platform, and whole, has an error that says so.
func TestRefused(t *testing.T) {
	layers := map[string]string{"a.tar": "first"}
	damaged := saved(t, "amd64", layers, "a.tar")
	damaged["a.tar"] = "fIrst"
	fewer := saved(t, "amd64", layers, "a.tar")
	fewer["manifest.json"] = strings.Replace(fewer["manifest.json"], `"a.tar"`, ``, 1)
	missing := saved(t, "amd64", layers, "a.tar")
	delete(missing, "a.tar")
	outside := saved(t, "amd64", layers, "a.tar")
	outside["a.tar"] = "-> ../../../../etc/passwd"
	endless := saved(t, "amd64", layers, "a.tar")
	endless["a.tar"] = "-> a.tar"
	whole := pack(t, saved(t, "amd64", map[string]string{"a.tar": strings.Repeat("first", 1000)}, "a.tar"))
	nested := member{testImage(t, amd64, "deep"), nil, nil}
	for range maxDepth {
		nested = member{indexOf(nested), nil, nil}
	}
	noLayer := writeLayout(t, member{testImage(t, amd64, "for amd64"), nil, nil})
	layer := strings.Replace(digest(t, "for amd64"), ":", "/", 1)
	if err := os.Remove(filepath.Join(noLayer, "blobs", layer)); err != nil {
		t.Fatal(err)
	}
	badManifest := writeLayout(t, member{testImage(t, amd64, "for amd64"), nil, nil})
	blobs, err := filepath.Glob(filepath.Join(badManifest, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		text, err := os.ReadFile(blob)
		if err == nil {
			err = os.WriteFile(blob, append(text, ' '), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, path string
		is         error
		want       string
	}{
		{"a missing file", filepath.Join(t.TempDir(), "none"), fs.ErrNotExist, "none: no such file"},
		{"an empty file", write(t, nil), ErrNotImages, "neither index.json nor manifest.json"},
		{"a text", write(t, []byte(strings.Repeat("no tar\n", 200))), ErrNotImages, "not an archive of images"},
		{"an empty directory", t.TempDir(), ErrNotImages, "neither index.json nor manifest.json"},
		{"a tar file of something else", write(t, pack(t, map[string]string{"etc/passwd": "root"})), ErrNotImages, "neither"},
		{"zstd", write(t, []byte{0x28, 0xb5, 0x2f, 0xfd, 0}), ErrNotImages, "zstd"},
		{"an index of nothing", write(t, pack(t, map[string]string{"index.json": `{}`})), ErrNotImages, "lists none"},
		{"no JSON", write(t, pack(t, map[string]string{"manifest.json": `{`})), nil, "manifest.json: "},
		{"cut off", write(t, whole[:3000]), nil, "damaged"},
		{"cut off and compressed", write(t, compress(t, whole)[:60]), nil, "uncompress"},
		{"a large index", write(t, pack(t, map[string]string{"index.json": strings.Repeat(" ", maxDocument+1)})), nil, "the limit is"},
		{"a damaged layer", write(t, pack(t, damaged)), nil, "layer a.tar is damaged"},
		{"a missing layer", write(t, pack(t, missing)), fs.ErrNotExist, "a.tar"},
		{"fewer layers", write(t, pack(t, fewer)), nil, "has 0 layers, its configuration says 1"},
		{"a link to the host", write(t, pack(t, outside)), fs.ErrNotExist, "a.tar"},
		{"a link to itself", write(t, pack(t, endless)), fs.ErrNotExist, "a.tar"},
		{"another platform saved", write(t, pack(t, saved(t, "arm64", layers, "a.tar"))), nil, "hello:1 is not for this machine, which is linux/amd64; it is for linux/arm64"},
		{"other platforms", writeLayout(t, member{testImage(t, arm64, "x"), nil, nil}, member{testImage(t, v1.Platform{OS: "windows", Architecture: "amd64"}, "y"), nil, nil}), nil,
			"the image is not for this machine, which is linux/amd64; it is for linux/arm64, windows/amd64"},
		{"indexes in indexes", writeLayout(t, nested), nil, "indexes are in each other"},
		{"a layout without its layer", noLayer, fs.ErrNotExist, layer},
		{"a damaged manifest", badManifest, nil, "is damaged"},
	} {
		got, err := read(t, test.path, amd64)
		if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %q, error %v, want one with %q that is %v", test.name, got, err, test.want, test.is)
		}
	}
}

// TestPlatformError: the error has the platforms as data.
func TestPlatformError(t *testing.T) {
	_, err := read(t, writeLayout(t, member{testImage(t, arm64, "x"), map[string]string{nameAnnotation: "x:1"}, &arm64}), amd64)
	var missing *PlatformError
	if !errors.As(err, &missing) || missing.Image != "x:1" || !slices.ContainsFunc(missing.Have, arm64.Equals) {
		t.Errorf("Images(%v) = %v, want a PlatformError of x:1 with %v", amd64, err, arm64)
	}
}
