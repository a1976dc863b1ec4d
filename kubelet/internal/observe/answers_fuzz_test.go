package observe

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
)

// answers is a runtime that gives the same answers whatever is asked. It does not filter.
type answers struct {
	sandboxes  *runtimeapi.ListPodSandboxResponse
	sandbox    *runtimeapi.PodSandboxStatusResponse
	containers *runtimeapi.ListContainersResponse
	container  *runtimeapi.ContainerStatusResponse
}

func (a *answers) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return a.sandboxes, nil
}

func (a *answers) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return a.sandbox, nil
}

func (a *answers) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return a.containers, nil
}

func (a *answers) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return a.container, nil
}

// decode returns the message that data encodes. An empty one stands for no answer.
func decode[M any, P interface {
	*M
	proto.Message
}](data []byte) (P, bool) {
	if len(data) == 0 {
		return nil, true
	}
	m := P(new(M))
	return m, proto.Unmarshal(data, m) == nil
}

func encode(f *testing.F, m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzAnswers: whatever the runtime answers, nothing is planned for containers and sandboxes that
// are not the pod's on this node.
func FuzzAnswers(f *testing.F) {
	labels := map[string]string{podconfig.LabelPodUID: "uid", podconfig.LabelNode: "node"}
	other := map[string]string{podconfig.LabelPodUID: "uid", podconfig.LabelNode: "other"}
	f.Add(
		encode(f, &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "s", Labels: labels}, {Id: "t", Labels: other}, {}}}),
		encode(f, &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Id: "s", Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1"}}}),
		encode(f, &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{
			{Id: "c", PodSandboxId: "s", Metadata: &runtimeapi.ContainerMetadata{Name: "web"}, State: 1, Labels: labels},
			{Id: "d", PodSandboxId: "t", Metadata: &runtimeapi.ContainerMetadata{Name: "web"}, State: 99, Labels: other}, {},
		}}),
		encode(f, &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: "c", State: 1, StartedAt: 1}}),
		false,
	)
	f.Add([]byte(nil), []byte(nil), []byte(nil), []byte(nil), true)
	f.Fuzz(func(t *testing.T, sandboxes, sandbox, containers, container []byte, deleted bool) {
		var a answers
		var ok [4]bool
		a.sandboxes, ok[0] = decode[runtimeapi.ListPodSandboxResponse](sandboxes)
		a.sandbox, ok[1] = decode[runtimeapi.PodSandboxStatusResponse](sandbox)
		a.containers, ok[2] = decode[runtimeapi.ListContainersResponse](containers)
		a.container, ok[3] = decode[runtimeapi.ContainerStatusResponse](container)
		// Message files are those of the machine: the paths in answers would be read.
		if a.container.GetStatus() != nil {
			a.container.Status.Mounts, a.container.Status.LogPath = nil, ""
		}
		if ok != [4]bool{true, true, true, true} {
			return // no answers of a runtime
		}
		ours := map[string]bool{}
		for _, s := range a.sandboxes.GetItems() {
			ours[s.GetId()] = ours[s.GetId()] || s.GetLabels()[podconfig.LabelNode] == "node" && s.GetLabels()[podconfig.LabelPodUID] == "uid"
		}
		for _, c := range a.containers.GetContainers() {
			ours[c.GetId()] = ours[c.GetId()] || c.GetLabels()[podconfig.LabelNode] == "node" && c.GetLabels()[podconfig.LabelPodUID] == "uid"
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
		pod.Name, pod.Namespace, pod.UID = "web", "default", "uid"
		now := time.Unix(1_800_000_000, 0)
		if deleted {
			pod.DeletionTimestamp = &metav1.Time{Time: now}
		}
		o := New(&a, pod.UID, "node")
		for range 2 { // the second time from what is cached
			s, err := o.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d := lifecycle.Plan(pod, s, lifecycle.NewMemory(), now)
			touched := slices.Concat(d.StopSandboxes, d.Remove, d.RemoveSandboxes)
			for _, stop := range slices.Concat(d.Stop...) {
				touched = append(touched, stop.Container.ID)
			}
			for _, id := range touched {
				if !ours[id] {
					t.Errorf("it stops or removes %q", id)
				}
			}
			for _, c := range s.Containers {
				if !ours[c.ID] {
					t.Errorf("it observes the container %q", c.ID)
				}
			}
			for _, s := range s.Sandboxes {
				if !ours[s.ID] {
					t.Errorf("it observes the sandbox %q", s.ID)
				}
			}
		}
	})
}
