//go:build linux

package lives_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// registryHost is the registry of all images; the runtime sends its pulls to the test.
const registryHost = "planekit.test"

// actorImage is the image of sandboxes, and of all containers of lives.
const actorImage = registryHost + "/actor:1"

// startRegistry serves a registry with the actor as repository:1 for each of repositories, through
// wrap, and returns its address. A nil wrap changes nothing.
func startRegistry(t *testing.T, wrap func(http.Handler) http.Handler, repositories ...string) string {
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
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	address := serve(t, handler)
	for _, repository := range repositories {
		tag, err := name.NewTag(address+"/"+repository+":1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, image); err != nil {
			t.Fatal(err)
		}
	}
	if wrap == nil {
		return address
	}
	return serve(t, wrap(handler))
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
