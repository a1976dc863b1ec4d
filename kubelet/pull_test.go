package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestParallelPulls counts the pulls that a node makes at once.
func TestParallelPulls(t *testing.T) {
	serial, parallel := true, false
	for _, test := range []struct {
		serialize  *bool
		most, want int
	}{{nil, 0, 1}, {&serial, 1, 1}, {&parallel, 2, 2}, {nil, 3, 3}, {&parallel, 0, 4}} {
		t.Run(fmt.Sprint(test.most, test.want), func(t *testing.T) {
			var mu sync.Mutex
			now, most := 0, 0
			full := make(chan struct{}) // closed once as many pulls as wanted are in progress
			r := newRig(t, memruntime.Config{Pull: func(ctx context.Context, _ string, _ *runtimeapi.AuthConfig) error {
				mu.Lock()
				now++
				if most = max(most, now); now == test.want {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				mu.Unlock()
				defer func() {
					mu.Lock()
					now--
					mu.Unlock()
				}()
				select {
				case <-full:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}})
			r.config.SerializeImagePulls, r.config.MaxParallelPulls = test.serialize, test.most
			r.start()
			names := []string{"a", "b", "c", "d"}
			for _, name := range names {
				r.api.create(webPod(name))
			}
			for _, name := range names {
				r.api.await(t, name, "running", running)
			}
			if most != test.want {
				t.Errorf("%d pulls at once, not %d", most, test.want)
			}
		})
	}
}

// TestWaitingForAPull checks that a pod that waits for its turn can be deleted.
func TestWaitingForAPull(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, memruntime.Config{Pull: func(ctx context.Context, name string, _ *runtimeapi.AuthConfig) error {
		if !strings.Contains(name, "slow") {
			return nil
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	r.start()
	slow := webPod("slow")
	slow.Spec.Containers[0].Image = "slow"
	r.api.create(slow)
	r.api.awaitEvent(t, "slow", "Pulling", `Pulling image "slow"`)
	eventually(t, "the sandbox is there", func() bool { return len(r.sandboxes()) == 1 })
	r.api.create(webPod("web"))
	r.api.awaitEvent(t, "web", "Pulling", `Pulling image "nginx"`)
	r.api.delete("web", 0)
	r.api.await(t, "web", "gone", gone)
	close(release)
	r.api.await(t, "slow", "running", running)
}

// waiting reports whether the container of a pod waits with a reason and a message.
func waiting(reason, message string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		w := firstStatus(pod).State.Waiting
		return w != nil && w.Reason == reason && w.Message == message
	}
}

// TestImageErrors checks reasons, messages and events of images that cannot be had.
func TestImageErrors(t *testing.T) {
	const down = "RegistryUnavailable: connection refused"
	r := newRig(t, memruntime.Config{Pull: func(_ context.Context, name string, _ *runtimeapi.AuthConfig) error {
		if strings.Contains(name, "down") {
			return status.Error(codes.Unavailable, down)
		}
		return nil
	}})
	r.config.Images = &blindImages{Images: r.client}
	r.start()
	of := func(image string, policy corev1.PullPolicy) {
		pod := webPod(image)
		pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, policy
		r.api.create(pod)
	}
	of("never", corev1.PullNever)
	const never = `Container image "never" is not present with pull policy of Never`
	r.api.await(t, "never", "waiting", waiting("ErrImageNeverPull", never))
	r.api.awaitEvent(t, "never", "ErrImageNeverPull", never)
	r.api.awaitEvent(t, "never", "Failed", "Error: ErrImageNeverPull")

	of("blind", corev1.PullIfNotPresent)
	const blind = `Failed to inspect image "": rpc error: code = Unknown desc = no database`
	r.api.await(t, "blind", "waiting", waiting("ImageInspectError", blind))
	r.api.awaitEvent(t, "blind", "InspectFailed", blind)
	r.api.awaitEvent(t, "blind", "Failed", "Error: ImageInspectError")

	of("down", corev1.PullAlways)
	r.api.await(t, "down", "waiting", waiting("RegistryUnavailable", `image pull failed for down because the registry is unavailable: connection refused`))
	r.api.awaitEvent(t, "down", "Failed", `Failed to pull image "down": rpc error: code = Unavailable desc = `+down)
	r.api.awaitEvent(t, "down", "Failed", "Error: RegistryUnavailable")
}

// blindImages cannot inspect the image called blind.
type blindImages struct{ kubelet.Images }

func (b *blindImages) ImageStatus(ctx context.Context, in *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	if strings.HasPrefix(in.GetImage().GetImage(), "blind") {
		return nil, status.Error(codes.Unknown, "no database")
	}
	return b.Images.ImageStatus(ctx, in)
}

// TestNodeCredentials checks that the credentials of a node are tried after those of the pod.
func TestNodeCredentials(t *testing.T) {
	var mu sync.Mutex
	var tried []string
	r := newRig(t, memruntime.Config{Pull: func(_ context.Context, _ string, auth *runtimeapi.AuthConfig) error {
		mu.Lock()
		defer mu.Unlock()
		tried = append(tried, auth.GetUsername())
		if auth.GetUsername() != "node" {
			return memruntime.ErrDenied
		}
		return nil
	}})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths":{"docker.io":{"username":"node","password":"p"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.config.DockerConfigDirs = []string{filepath.Join(dir, "none"), dir}
	r.config.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		return &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"docker.io":{"username":"pod","password":"p"}}}`)}}, nil
	}
	r.start()
	pod := webPod("web")
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	r.api.create(pod)
	r.api.await(t, "web", "running", running)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(tried, []string{"pod", "node"}) {
		t.Errorf("the image is pulled by the users %q, want pod, then node", tried)
	}
}

// TestImageVolume checks that the image of a volume is pulled before the container starts, and what the
// runtime mounts.
func TestImageVolume(t *testing.T) {
	var mu sync.Mutex
	pulls := map[string]int{}
	r := newRig(t, memruntime.Config{Pull: func(_ context.Context, name string, _ *runtimeapi.AuthConfig) error {
		mu.Lock()
		defer mu.Unlock()
		pulls[name]++
		if strings.HasPrefix(name, "registry.test/late:") {
			return memruntime.ErrMissing
		}
		return nil
	}})
	runtime := &heard{Runtime: r.client}
	r.config.Runtime = runtime
	r.start()
	of := func(name, reference string, policy corev1.PullPolicy) *corev1.Pod {
		pod := webPod(name)
		pod.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: policy}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "model", MountPath: "/model", SubPath: "weights/1"}}
		return pod
	}
	pod := of("web", "registry.test/model:1", corev1.PullAlways)
	second := pod.Spec.Containers[0].DeepCopy()
	second.Name = "second"
	pod.Spec.Containers = append(pod.Spec.Containers, *second, corev1.Container{Name: "without", Image: "nginx"})
	r.api.create(pod)
	r.api.await(t, "web", "running", running)
	mu.Lock()
	if n := pulls["registry.test/model:1"]; n != 1 {
		t.Errorf("%d pulls for two containers", n)
	}
	mu.Unlock()
	mounts := 0
	runtime.mu.Lock()
	for _, c := range runtime.containers {
		for _, m := range c.Config.Mounts {
			if m.Image == nil {
				continue
			}
			mounts++
			if m.ContainerPath != "/model" || m.HostPath != "" || m.ImageSubPath != "weights/1" || !m.Readonly ||
				m.Image.UserSpecifiedImage != "registry.test/model:1" || !strings.HasPrefix(m.Image.Image, "sha256:") {
				t.Errorf("mount %v", m)
			}
		}
	}
	runtime.mu.Unlock()
	if mounts != 2 {
		t.Errorf("%d mounts", mounts)
	}

	// A volume whose image is missing holds the container, in the words of an image of its own.
	r.api.create(of("late", "registry.test/late:1", ""))
	const said = "rpc error: code = NotFound desc = failed to pull and unpack image: not found"
	r.api.await(t, "late", "waiting", waiting("ErrImagePull", said))
	r.api.awaitEvent(t, "late", "Failed", `Failed to pull image "registry.test/late:1": `+said)
	r.api.awaitEvent(t, "late", "Failed", "Error: ErrImagePull")
	r.api.await(t, "late", "backing off", waiting("ImagePullBackOff", `Back-off pulling image "registry.test/late:1": ErrImagePull: `+said))
	r.api.awaitEvent(t, "late", "BackOff", `Back-off pulling image "registry.test/late:1"`)

	r.api.create(of("never", "registry.test/other:1", corev1.PullNever))
	r.api.await(t, "never", "waiting", waiting("ErrImageNeverPull", `Container image "registry.test/other:1" is not present with pull policy of Never`))
}
