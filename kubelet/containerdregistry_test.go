package kubelet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"
)

// faultyRegistry serves images under the names of faults. They have nothing in common, because
// containerd waits for a layer that another pull has begun.
type faultyRegistry map[string]*servedImage

type servedImage struct {
	digest, configHex       string
	manifest, config, layer []byte
}

func serveImage(name string) (*servedImage, error) {
	layer, err := layerOf(map[string][]byte{"data": bytes.Repeat([]byte(name), 32<<10)})
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
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return served(image, layer)
}

// served returns what a registry serves of an image with one layer.
func served(image v1.Image, layer v1.Layer) (*servedImage, error) {
	digest, err1 := image.Digest()
	configName, err2 := image.ConfigName()
	s := &servedImage{digest: digest.String(), configHex: configName.Hex}
	var err3, err4, err5 error
	s.manifest, err3 = image.RawManifest()
	s.config, err4 = image.RawConfigFile()
	compressed, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	s.layer, err5 = io.ReadAll(compressed)
	return s, errors.Join(err1, err2, err3, err4, err5, compressed.Close())
}

func (f faultyRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v2 NAME manifests|blobs REFERENCE
	switch {
	case r.URL.Path == "/token":
		fmt.Fprint(w, `{"token":"dG9rZW4="}`)
	case len(parts) != 4:
		w.WriteHeader(http.StatusOK)
	case parts[1] == "refuses":
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="s",scope="repository:refuses:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
	case parts[1] == "busy":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case parts[2] == "manifests":
		kind := "application/vnd.docker.distribution.manifest.v2+json"
		if parts[1] == "type" {
			kind = "text/html"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Docker-Content-Digest", f[parts[1]].digest)
		write(w, f[parts[1]].manifest)
	case strings.HasSuffix(parts[3], f[parts[1]].configHex):
		write(w, f[parts[1]].config)
	default:
		serveLayer(w, r, parts[1], f[parts[1]].layer)
	}
}

func write(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Write(data)
}

func serveLayer(w http.ResponseWriter, r *http.Request, fault string, layer []byte) {
	switch fault {
	case "digest":
		wrong := bytes.Clone(layer)
		wrong[len(wrong)/2] ^= 1
		write(w, wrong)
	case "short":
		write(w, layer[:len(layer)/2])
	case "long":
		write(w, append(bytes.Clone(layer), layer...))
	case "redirects":
		http.Redirect(w, r, r.URL.Path+"?again=1", http.StatusTemporaryRedirect)
	case "resets":
		w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
		w.Write(layer[:100])
		http.NewResponseController(w).Flush()
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			conn.Close()
		}
	case "trickles":
		w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
		for i := range layer {
			w.Write(layer[i : i+1])
			http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	case "hangs":
		w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
		w.Write(layer[:100])
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		write(w, layer)
	}
}

// containerdRegistry pulls images from registries that are slow, gone, or lie. Each failure has its
// events, and no pod waits for another one's image.
func containerdRegistry(t *testing.T, r *rig) {
	registry := faultyRegistry{}
	server := httptest.NewServer(registry)
	defer server.Close()
	closed := httptest.NewServer(registry)
	closed.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	of := func(name, image string) {
		pod := webPod("pull-" + name)
		pod.Spec.HostNetwork = true
		pod.Spec.Containers[0].Image = image
		pod.Spec.Containers[0].Command = []string{"/data"} // it is not a program
		r.api.create(pod)
	}
	slow, names := []string{"trickles", "hangs"}, []string{"trickles", "hangs", "good"}
	var err error
	failing := map[string]string{
		"digest": "unexpected commit digest", "short": "", "long": "", "type": "", "refuses": "401 Unauthorized",
		"busy": "429 Too Many Requests", "redirects": "stopped after 10 redirects", "resets": "", "gone": "connection refused",
	}
	for name := range failing {
		names = append(names, name)
	}
	for _, name := range names {
		if registry[name], err = serveImage(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slow {
		of(name, host+"/"+name+":1")
	}
	for name := range failing {
		image := host + "/" + name + ":1"
		if name == "gone" {
			image = strings.TrimPrefix(closed.URL, "http://") + "/gone:1"
		}
		of(name, image)
	}
	// Another pod with an image on the machine starts, and a good image is pulled.
	r.api.create(actorPod("bystander"))
	r.api.await(t, "bystander", "running", running)
	of("good", host+"/good:1")
	r.api.awaitEvent(t, "pull-good", "Created", "Container created")
	for name, words := range failing {
		pod := r.api.await(t, "pull-"+name, "refused", func(pod *corev1.Pod) bool {
			if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
				return false
			}
			waiting := firstStatus(pod).State.Waiting
			return waiting != nil && (waiting.Reason == "ErrImagePull" || waiting.Reason == "ImagePullBackOff")
		})
		if message := firstStatus(pod).State.Waiting.Message; !strings.Contains(message, words) {
			t.Errorf("%s: the message is %q, want %q in it", name, message, words)
		}
		r.api.awaitEvent(t, "pull-"+name, "Failed", "Error: ErrImagePull")
	}
	for _, name := range slow {
		if r.api.said("pull-"+name, "Failed") {
			t.Errorf("%s has failed", name)
		}
	}
	for i := range names {
		names[i] = "pull-" + names[i]
	}
	r.end(t, append(names, "bystander")...)
}

// said reports whether there is an event about a pod with a reason.
func (a *api) said(pod, reason string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e.InvolvedObject.Name == pod && e.Reason == reason {
			return true
		}
	}
	return false
}
