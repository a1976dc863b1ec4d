package kubelet_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/images"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bubbleRig returns a node in a bubble of testing/synctest.
func bubbleRig(t *testing.T, c memruntime.Config) *rig {
	t.Helper()
	c.Socket = "/not/listened/at"
	runtime, err := memruntime.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return rigOn(t, runtime, runtime)
}

// TestPullTimes: the delay between two pulls doubles from 10 s to 300 s, and the events are those of
// Kubernetes.
func TestPullTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var pulls []time.Duration
		begin := time.Now()
		r := bubbleRig(t, memruntime.Config{Pull: func(context.Context, string, *runtimeapi.AuthConfig) error {
			mu.Lock()
			defer mu.Unlock()
			pulls = append(pulls, time.Since(begin).Round(time.Second))
			return status.Error(codes.Unknown, "failed to copy: read: connection reset by peer")
		}})
		r.start()
		defer r.stop()
		begin = time.Now()
		r.api.create(webPod("web"))
		const said = `rpc error: code = Unknown desc = failed to copy: read: connection reset by peer`
		r.api.await(t, "web", "failing", waiting("ErrImagePull", said))
		r.api.await(t, "web", "backing off", waiting("ImagePullBackOff", `Back-off pulling image "nginx": ErrImagePull: `+said))
		r.api.awaitEvent(t, "web", "Failed", `Failed to pull image "nginx": `+said)
		r.api.awaitEvent(t, "web", "Failed", "Error: ErrImagePull")
		r.api.awaitEvent(t, "web", "Failed", "Error: ImagePullBackOff")
		r.api.awaitEvent(t, "web", "BackOff", `Back-off pulling image "nginx"`)
		time.Sleep(20 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := []time.Duration{0, 10, 30, 70, 150, 310, 610, 910}
		for i := range want {
			if i >= len(pulls) || pulls[i] < want[i]*time.Second || pulls[i] > want[i]*time.Second+21*time.Second {
				t.Fatalf("pulls after %v, want them after %v s", pulls, want)
			}
		}
		if len(pulls) > len(want)+1 {
			t.Errorf("pulls after %v", pulls)
		}
	})
}

// TestStuckPull: a registry that never answers holds other serial pulls for a minute and its own until its pod
// is deleted, and nothing else.
func TestStuckPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbleRig(t, memruntime.Config{Pull: func(ctx context.Context, name string, _ *runtimeapi.AuthConfig) error {
			if strings.Contains(name, "stuck") {
				<-ctx.Done()
			}
			return ctx.Err()
		}})
		r.start()
		defer r.stop()
		of := func(name, image string) {
			pod := webPod(name)
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, corev1.PullIfNotPresent
			r.api.create(pod)
		}
		of("first", "present:1")
		r.api.await(t, "first", "running", running)
		of("stuck", "stuck:1")
		r.api.awaitEvent(t, "stuck", "Pulling", `Pulling image "stuck:1"`)
		begin := time.Now()
		of("second", "present:1")
		r.api.await(t, "second", "running", running)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a pod whose image is there waited %v", took)
		}
		begin = time.Now()
		of("elsewhere", "registry.test/other:1")
		r.api.await(t, "elsewhere", "running", running)
		if took := time.Since(begin); took < 50*time.Second || took > images.Patience {
			t.Errorf("a pull from another registry waited %v, want a minute at most and not less than 50s", took)
		}
		of("waiting", "other:1")
		time.Sleep(10 * time.Minute)
		r.api.mu.Lock()
		pod, _ := r.api.pods.Get("default/waiting")
		r.api.mu.Unlock()
		if running(pod) {
			t.Error("two images of a registry that hangs were pulled at once")
		}
		// A crash of the first pod is handled although a pull is stuck.
		begin = time.Now()
		r.api.delete("first", 0)
		r.api.await(t, "first", "gone", gone)
		r.api.delete("stuck", 0)
		r.api.await(t, "stuck", "gone", gone)
		r.api.await(t, "waiting", "running", running)
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("the pull went on after %v", took)
		}
	})
}

// TestSecretsAreNotTold: no password is in a log at any verbosity, in an event or in a status, whether the
// registry refuses it or the secret is damaged.
func TestSecretsAreNotTold(t *testing.T) {
	const planted = "pl4nted"
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + planted))
	secrets := map[string]string{
		"refused": `{"auths":{"docker.io":{"username":"user","password":"` + planted + `"}}}`,
		"encoded": `{"auths":{"docker.io":{"auth":"` + encoded + `"}}}`,
		"token":   `{"auths":{"docker.io":{"identitytoken":"` + planted + `","registrytoken":"` + planted + `"}}}`,
		"torn":    `{"auths":{"docker.io":{"username":"user","password":"` + planted,
		"type":    `{"auths":{"docker.io":"` + planted + `"}}`,
		"base64":  `{"auths":{"docker.io":{"auth":"` + planted + `?"}}}`,
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log strings.Builder
		refused := map[string]bool{}
		r := bubbleRig(t, memruntime.Config{Pull: func(_ context.Context, name string, auth *runtimeapi.AuthConfig) error {
			mu.Lock()
			defer mu.Unlock()
			if auth != nil {
				refused[name] = true
			}
			return memruntime.ErrDenied
		}})
		r.config.Log = funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(&log, prefix, args)
		}, funcr.Options{Verbosity: 100})
		r.config.Secrets = func(_ context.Context, _, name string) (*corev1.Secret, error) {
			return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(secrets[name])}}, nil
		}
		r.start()
		for name := range secrets {
			pod := webPod(name)
			pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: name}}
			r.api.create(pod)
		}
		time.Sleep(10 * time.Minute)
		r.stop()
		r.api.mu.Lock()
		defer r.api.mu.Unlock()
		events, err := json.Marshal(r.api.events)
		if err != nil {
			t.Fatal(err)
		}
		var pods strings.Builder
		for pod := range r.api.pods.All() {
			text, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			pods.Write(text)
		}
		mu.Lock()
		defer mu.Unlock()
		for where, text := range map[string]string{"the log": log.String(), "the events": string(events), "the pods": pods.String()} {
			if len(text) == 0 && where != "the log" {
				t.Errorf("%s is empty", where)
			}
			for _, secret := range []string{planted, encoded} {
				if i := strings.Index(text, secret); i >= 0 {
					t.Errorf("%s tells a secret: %s", where, text[max(0, i-200):i+len(secret)])
				}
			}
		}
		if len(refused) == 0 {
			t.Error("no credential was tried")
		}
	})
}
