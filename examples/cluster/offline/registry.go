package offline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/planekit/planekit/cni"
)

// Config configures [New].
type Config struct {
	// Cache is the directory in which built images are kept; required. Several
	// clusters may share it.
	Cache string
	// Listen is the TCP address of the registry. Empty means a free port of 127.0.0.1.
	Listen string
	// Log gets one line per image built; silent when zero.
	Log logr.Logger
}

// Images is a registry with a few images in it.
type Images struct {
	config   Config
	listener net.Listener
	recipes  []recipe
	built    map[string]*builtImage // by repository
}

// builtImage is an image that is being built, or the error of the last attempt.
type builtImage struct {
	tried chan struct{} // closed after the first attempt
	once  sync.Once

	mu    sync.Mutex
	serve http.Handler
	err   error
}

// set records the outcome of an attempt.
func (b *builtImage) set(serve http.Handler, err error) {
	b.mu.Lock()
	b.serve, b.err = serve, err
	b.mu.Unlock()
	b.once.Do(func() { close(b.tried) })
}

// get returns the outcome of the last attempt.
func (b *builtImage) get() (http.Handler, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.serve, b.err
}

// A build that fails is tried again after firstRetry, and then after twice the time of before up to
// lastRetry: the distribution's mirror is out of reach for a while, or another program updates the
// list of packages.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// New takes a port and starts nothing.
func New(config Config) (*Images, error) { return newImages(config, recipes) }

func newImages(config Config, recipes []recipe) (*Images, error) {
	if config.Cache == "" {
		return nil, errors.New("offline images: no cache directory")
	}
	listener, err := net.Listen("tcp", cmp.Or(config.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("offline images: %w", err)
	}
	images := &Images{config: config, listener: listener, recipes: recipes, built: map[string]*builtImage{}}
	for _, r := range recipes {
		image := &builtImage{tried: make(chan struct{})}
		for _, repository := range r.repositories {
			images.built[repository] = image
		}
	}
	return images, nil
}

// URL is where the registry answers, such as http://127.0.0.1:40123.
func (i *Images) URL() string { return "http://" + i.listener.Addr().String() }

// Run builds what the cache does not hold and serves until ctx is done.
func (i *Images) Run(ctx context.Context) error {
	server := &http.Server{Handler: i, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(i.listener) }()

	var building sync.WaitGroup
	for _, r := range i.recipes {
		building.Go(func() { i.build(ctx, r) })
	}
	defer building.Wait()

	select {
	case err := <-served:
		return fmt.Errorf("offline images: %w", err)
	case <-ctx.Done():
		err := server.Close()
		<-served
		return err
	}
}

// build makes one image, or finds it in the cache, and lets its pulls go on. It tries until it
// succeeds or ctx is done.
func (i *Images) build(ctx context.Context, r recipe) {
	image := i.built[r.repositories[0]]
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		handler, err := i.attempt(ctx, r)
		if err != nil {
			err = fmt.Errorf("build image %s: %w", r.repositories[0], err)
		}
		image.set(handler, err)
		if err == nil || ctx.Err() != nil {
			return
		}
		i.config.Log.Error(err, "offline image", "retry", retry.String())
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// attempt returns the registry of an image that is in the cache, or builds the image first. One
// process at a time builds an image in a cache; the others wait and find it.
func (i *Images) attempt(ctx context.Context, r recipe) (http.Handler, error) {
	name := filepath.Base(r.repositories[0])
	cache := filepath.Join(i.config.Cache, runtime.GOARCH, recipesVersion)
	dir := filepath.Join(cache, name)
	if stored, err := load(dir); err == nil {
		return serve(r, stored, dir)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	unlock, err := cni.FileLock(ctx, filepath.Join(cache, name+".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	stored, err := load(dir)
	if err != nil {
		start := time.Now()
		if err := build(ctx, r, dir); err != nil {
			return nil, err
		}
		i.config.Log.Info("built image", "image", r.repositories[0], "duration", time.Since(start).String())
		if stored, err = load(dir); err != nil {
			return nil, err
		}
	}
	return serve(r, stored, dir)
}

// recipesVersion is part of the cache's paths: raise it when a recipe changes.
const recipesVersion = "2"

// serve returns a registry that holds image under all names of r. The blobs
// stay on disk.
func serve(r recipe, image v1.Image, dir string) (http.Handler, error) {
	handler := registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(filepath.Join(dir, "blobs"))),
		registry.Logger(log.New(io.Discard, "", 0)))
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return nil, err
	}
	for _, repository := range r.repositories {
		for _, tag := range r.tags {
			put, err := http.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, bytes.NewReader(manifest))
			if err != nil {
				return nil, err
			}
			put.Header.Set("Content-Type", string(mediaType))
			var answer answer
			handler.ServeHTTP(&answer, put)
			if answer.code != http.StatusCreated {
				return nil, fmt.Errorf("registry refused %s:%s: %s", repository, tag, &answer.body)
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, digest, isBlob := strings.Cut(r.URL.Path, "/blobs/")
		if hash, err := v1.NewHash(digest); isBlob && err == nil {
			serveBlob(w, r, filepath.Join(dir, "blobs", hash.Algorithm, hash.Hex))
			return
		}
		handler.ServeHTTP(w, r)
	}), nil
}

// serveBlob serves a blob from any offset: a containerd that was killed in the middle of a pull asks
// for the rest of it, which the registry's own handler refuses.
func serveBlob(w http.ResponseWriter, r *http.Request, path string) {
	blob, err := os.Open(path)
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"BLOB_UNKNOWN","message":"no such blob"}]}`)
		return
	}
	defer blob.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, blob)
}

// answer keeps what a handler answers to a request that never was on a wire.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// ServeHTTP answers the read half of the distribution API
// (https://github.com/opencontainers/distribution-spec). A request for an image
// which is being built waits for it.
func (i *Images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		return
	}
	image, ok := i.built[repository(r.URL.Path)]
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"NAME_UNKNOWN","message":"no such image among the offline ones"}]}`)
		return
	}
	select {
	case <-image.tried:
	case <-r.Context().Done():
		return
	}
	handler, err := image.get()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	handler.ServeHTTP(w, r)
}

// repository returns the name in /v2/<name>/manifests/<reference> and
// /v2/<name>/blobs/<digest>.
func repository(path string) string {
	name := strings.TrimPrefix(path, "/v2/")
	for _, kind := range []string{"/manifests/", "/blobs/"} {
		if at := strings.LastIndex(name, kind); at >= 0 {
			return name[:at]
		}
	}
	return name
}
