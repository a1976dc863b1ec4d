//go:build linux

package lives_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// registryHost is the registry of all images; the runtime sends its pulls to the test.
const registryHost = "planekit.test"

// actorImage is the image of sandboxes, and of all containers of lives.
const actorImage = registryHost + "/actor:1"

// startRegistry serves a registry with the image of the actor and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	program := build(t, "./testdata/actor", "actor")
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	image, err := imageOf(data)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := registryOf(image)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, handler)
}

// registryOf returns a registry that has one image, by any name.
func registryOf(image v1.Image) (http.Handler, error) {
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	parsed, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	blobs := map[string][]byte{parsed.Config.Digest.String(): config}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for i, layer := range layers {
		file, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		blobs[parsed.Layers[i].Digest.String()] = data
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/{name}/manifests/{reference}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(parsed.MediaType))
		w.Header().Set("Docker-Content-Digest", digest.String())
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(manifest))
	})
	mux.HandleFunc("GET /v2/{name}/blobs/{digest}", func(w http.ResponseWriter, r *http.Request) {
		data, ok := blobs[r.PathValue("digest")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	})
	return mux, nil
}

// serve serves requests on a free port of the loopback address until the test ends.
func serve(t *testing.T, handler http.Handler) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return listener.Addr().String()
}

// build builds a program of this module without C and returns its path.
func build(t *testing.T, pkg, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-o", path, pkg)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// imageOf returns an image with one program, which is its entrypoint.
func imageOf(program []byte) (v1.Image, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, directory := range []string{"dev", "etc", "proc", "sys", "tmp"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: directory, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "actor", Mode: 0o755, Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/actor"}}
	return mutate.ConfigFile(image, config)
}
