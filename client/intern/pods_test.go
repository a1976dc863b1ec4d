package intern_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/planekit/planekit/client/intern"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newPod returns pod number i of a template in the state in which a kubelet and its ReplicaSet
// leave it.
func newPod(template, i int, token bool) *corev1.Pod {
	app := fmt.Sprintf("app-%d", template)
	name := fmt.Sprintf("%s-5d7f9-%05d", app, i)
	at := metav1.NewTime(time.Unix(1_700_000_000+int64(i), 0))
	sizes := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", GenerateName: app + "-5d7f9-", UID: types.UID(fmt.Sprintf("7f3c1f0a-0000-4000-8000-%012d", i)),
			ResourceVersion: fmt.Sprint(i + 1), Generation: 1, CreationTimestamp: at,
			Labels:      map[string]string{"app": app, "pod-template-hash": "5d7f9", "tier": "backend"},
			Annotations: map[string]string{"example.com/own": name, "example.com/team": "shop"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-5d7f9", UID: types.UID(app),
				Controller: new(true), BlockOwnerDeletion: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{}}}`)},
				{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", Subresource: "status",
					FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:status":{"f:podIPs":{"k:{\"ip\":\"10.1.0.%d\"}":{}}}}`, i))},
			},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%3), ServiceAccountName: app, DeprecatedServiceAccount: app, RestartPolicy: "Always", DNSPolicy: "ClusterFirst",
			SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: new(true), Priority: new(int32(0)),
			SecurityContext: &corev1.PodSecurityContext{}, PreemptionPolicy: new(corev1.PreemptLowerPriority),
			Tolerations:    []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}},
			InitContainers: []corev1.Container{{Name: "init", Image: "init:" + app}},
			Containers: []corev1.Container{{
				Name: "c", Image: "registry.example.com/" + app + ":v1", ImagePullPolicy: "IfNotPresent", Args: []string{"--listen=:8080"},
				Env:            []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "REGION", Value: "eu"}},
				Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
				Resources:      corev1.ResourceRequirements{Requests: sizes, Limits: sizes},
				VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", QOSClass: "Burstable", HostIP: fmt.Sprintf("10.0.0.%d", i%3), HostIPs: []corev1.HostIP{{IP: fmt.Sprintf("10.0.0.%d", i%3)}},
			PodIP: fmt.Sprintf("10.1.0.%d", i), PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.1.0.%d", i)}, {IP: fmt.Sprintf("fd00::%d", i)}}, StartTime: &at,
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", Ready: true, Started: new(true), RestartCount: int32(i % 2), ContainerID: fmt.Sprintf("containerd://%064d", i), AllocatedResources: sizes,
				Image: "registry.example.com/" + app + ":v1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: at, FinishedAt: at, ContainerID: name}},
			}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}},
		},
	}
	for _, c := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: at})
	}
	if token {
		volume := fmt.Sprintf("kube-api-access-%05d", i)
		mount := corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(420)),
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}}}}}})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, mount)
		p.Spec.InitContainers[0].VolumeMounts = append(p.Spec.InitContainers[0].VolumeMounts, mount)
		p.Status.ContainerStatuses[0].VolumeMounts = []corev1.VolumeMountStatus{{Name: volume, MountPath: mount.MountPath, ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyDisabled)}}
	}
	return p
}

func marshal(t testing.TB, p *corev1.Pod) []byte {
	t.Helper()
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// compare decodes data both ways and returns the pod that shares parts. It then overwrites data, to
// expose references to it.
func compare(t testing.TB, table *intern.Table, data []byte) *corev1.Pod {
	t.Helper()
	var want corev1.Pod
	wantErr := want.Unmarshal(data)
	copied := append([]byte(nil), data...)
	got := new(corev1.Pod)
	err := table.UnmarshalPod(copied, got)
	for i := range copied {
		copied[i] = '!'
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("error %v, want %v, of %x", err, wantErr, data)
	}
	if wantErr == nil && !reflect.DeepEqual(got, &want) {
		t.Fatalf("the pod is\n%v\nand should be\n%v\nof %x", got, &want, data)
	}
	return got
}
