package main

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	templates     = 100
	namespaces    = 50
	podsPerNode   = 32
	initialSecond = 1_700_000_000
)

// newPod returns pod number i in the state in which a kubelet and its ReplicaSet leave it: 1.3 kB
// in protobuf.
func newPod(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i%templates)
	name := fmt.Sprintf("%s-6d4cf56db6-%05d", app, i)
	token := fmt.Sprintf("kube-api-access-%05d", i)
	at := metav1.Unix(initialSecond+int64(i), 0)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: app + "-6d4cf56db6-", Namespace: fmt.Sprintf("namespace-%d", i%namespaces),
			UID: types.UID(fmt.Sprintf("7f3c1f0a-0000-4000-8000-%012d", i)), ResourceVersion: strconv.Itoa(i + 1), CreationTimestamp: at,
			Labels: map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": "6d4cf56db6", "tier": "backend"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-6d4cf56db6",
				UID: types.UID(fmt.Sprintf("11111111-0000-4000-8000-%012d", i%templates)), Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName(i), ServiceAccountName: app, DeprecatedServiceAccount: app, RestartPolicy: "Always", DNSPolicy: "ClusterFirst",
			SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: new(true), Priority: new(int32(0)),
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}},
			Containers: []corev1.Container{{
				Name: "server", Image: "registry.example.com/shop/" + app + ":v1.2.3", ImagePullPolicy: "IfNotPresent",
				Args:  []string{"--listen=:8080", "--log=info"},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
				Env:   []corev1.EnvVar{{Name: "DATABASE", Value: "postgres.shop.svc"}, {Name: "REGION", Value: "eu-central-1"}, {Name: "WORKERS", Value: "8"}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Scheme: "HTTP"}}},
				VolumeMounts:           []corev1.VolumeMount{{Name: token, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
			}},
			Volumes: []corev1.Volume{{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(420)),
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				}}}}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", QOSClass: "Burstable", HostIP: "10.0.0.1", PodIP: fmt.Sprintf("10.1.%d.%d", i/250%250, i%250), StartTime: &at,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "server", Ready: true, Started: new(true), Image: "registry.example.com/shop/" + app + ":v1.2.3",
				ContainerID: fmt.Sprintf("containerd://%064d", i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}},
		},
	}
	for _, c := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: at})
	}
	return p
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i/podsPerNode) }

// newPods returns n pods.
func newPods(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(i)
	}
	return pods
}

// thin returns n pods that share all their parts with a few, for measurements in which the size of
// a pod does not matter.
func thin(n int) []*corev1.Pod {
	full := newPods(templates)
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		p := *full[i%templates]
		p.Name, p.Spec.NodeName, p.ResourceVersion = fmt.Sprintf("pod-%d", i), nodeName(i), strconv.Itoa(i+1)
		p.Namespace = fmt.Sprintf("namespace-%d", i%namespaces)
		pods[i] = &p
	}
	return pods
}

// updates returns n changes of pods, in an order without locality.
func updates(pods []*corev1.Pod, n int) []*corev1.Pod {
	changed := make([]*corev1.Pod, n)
	for i := range changed {
		p := *pods[i*7919%len(pods)]
		p.ResourceVersion = strconv.Itoa(len(pods) + 1 + i)
		changed[i] = &p
	}
	return changed
}

func key(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
