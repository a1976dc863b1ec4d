package offline

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// recipe says how to make one image.
type recipe struct {
	// repositories are the names it is served under.
	repositories []string
	// tags it has; "latest" comes from nowhere but here.
	tags []string
	// packages of the distribution whose files it holds.
	packages []string
	// files it holds beside, by path; a later file replaces an earlier one.
	files func() ([]file, error)
	// config holds the command of its containers.
	config v1.Config
}

// file is a regular file, a directory (link and data empty, path ends in a
// slash) or a symbolic link.
type file struct {
	path string
	data []byte
	mode int64
	link string
}

// recipes are the images that are served. Names without a registry are
// docker.io's, the last path element of the others is unique.
var recipes = []recipe{
	{
		repositories: []string{"pause"},
		// All that a containerd or a kubelet has named by default: it pulls no other as the image of sandboxes.
		tags: []string{"latest", "3.1", "3.2", "3.3", "3.4.1", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10", "3.10.1", "3.10.2"},
		files: func() ([]file, error) {
			binary, err := pauseBinary(runtime.GOARCH)
			return []file{{path: "pause", data: binary, mode: 0o755}}, err
		},
		config: v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
	},
	{
		repositories: []string{"library/busybox"},
		tags:         []string{"latest"},
		packages:     []string{"busybox-static"},
		files:        busyboxFiles,
		config:       v1.Config{Cmd: []string{"sh"}, Env: searchPath},
	},
	{
		repositories: []string{"library/nginx"},
		tags:         []string{"latest"},
		packages:     []string{"nginx", "busybox-static"}, // the public image has a shell too
		files:        nginxFiles,
		config: v1.Config{
			Cmd:          []string{"nginx", "-g", "daemon off;"},
			Env:          searchPath,
			ExposedPorts: map[string]struct{}{"80/tcp": {}},
			StopSignal:   "SIGQUIT",
		},
	},
}

var searchPath = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// build makes the image of r in the OCI layout at dir, whose name is replaced
// only when the image is whole, so that an interrupted build leaves nothing
// that looks like one.
func build(ctx context.Context, r recipe, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "build-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	root, err := rootFS(ctx, r, work)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(root)), nil
	})
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: r.config,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDs(image)},
	})
	if err != nil {
		return err
	}
	made := filepath.Join(work, "layout")
	index, err := layout.Write(made, empty.Index)
	if err != nil {
		return err
	}
	if err := index.AppendImage(image); err != nil {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return nil // another build of the same image came first
		}
		return err
	}
	return nil
}

func diffIDs(image v1.Image) []v1.Hash {
	config, err := image.ConfigFile()
	if err != nil {
		return nil
	}
	return config.RootFS.DiffIDs
}

// rootFS returns the image's only layer as a tar file.
func rootFS(ctx context.Context, r recipe, work string) ([]byte, error) {
	var out bytes.Buffer
	fs := layerWriter{tar: tar.NewWriter(&out), seen: map[string]bool{}}

	// Own files come first and win over the packages'.
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := fs.add(f); err != nil {
			return nil, err
		}
	}
	if len(r.packages) > 0 {
		debs, err := download(ctx, work, r.packages...)
		if err != nil {
			return nil, err
		}
		for _, deb := range debs {
			if err := unpack(ctx, deb, fs.copy); err != nil {
				return nil, err
			}
		}
		if err := fs.mergedUsr(); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), fs.tar.Close()
}

// layerWriter writes each path once.
type layerWriter struct {
	tar  *tar.Writer
	seen map[string]bool
}

// unwanted are directories that no program reads when it runs.
var unwanted = []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "etc/init.d", "lib/systemd", "usr/lib/systemd"}

func (w *layerWriter) copy(header *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(header.Name, "/")
	under := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	if w.seen[name] || slices.ContainsFunc(unwanted, under) {
		return nil
	}
	w.seen[name] = true
	header.Format = tar.FormatPAX
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err := io.Copy(w.tar, content)
	return err
}

func (w *layerWriter) add(f file) error {
	header := &tar.Header{Name: f.path, Mode: f.mode, Typeflag: tar.TypeReg, Size: int64(len(f.data))}
	switch {
	case f.link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
	case strings.HasSuffix(f.path, "/"):
		header.Typeflag = tar.TypeDir
	}
	return w.copy(header, bytes.NewReader(f.data))
}

// mergedUsr links /lib and its like into /usr where the packages, as newer
// releases' do, hold no such directory themselves.
func (w *layerWriter) mergedUsr() error {
	for _, dir := range []string{"bin", "lib", "lib64", "sbin"} {
		if w.seen[dir] || !w.seen["usr/"+dir] {
			continue
		}
		if err := w.add(file{path: dir, link: path.Join("usr", dir)}); err != nil {
			return err
		}
	}
	return nil
}

// load opens the image that build left in dir.
func load(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, errors.New("the layout does not hold one image")
	}
	return index.Image(manifest.Manifests[0].Digest)
}
