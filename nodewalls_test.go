package planekit_test

// nodeWalls holds the walls of what a node decides itself, and of the resources of pods.
var nodeWalls = []wall{
	{packages: "kubelet/internal/resize", closed: true, may: []allowance{
		{"kubelet/internal/cgroup", "a resize is a change of limits"},
		{"kubelet/internal/qos", "pods with guarantees are resized first"},
		{"internal/usage", "a node counts what pods request as the quota does"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "kubelet/internal/allocation", closed: true, may: []allowance{
		{"kubelet/internal/resize", "it keeps what is decided there"},
		{"kubelet/internal/cgroup", "it keeps the limits of a pod's cgroup"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "kubelet/internal/gate", closed: true, may: []allowance{
		{"kubelet/admission", "it asks the handlers about one pod after the other"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "kubelet/internal/nodestatus", closed: true, may: []allowance{
		{"k8s.io/cri-api", "the runtime names its images and features"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "kubelet/admission", closed: true, may: []allowance{
		{"kubelet/eviction", "critical pods are the same for both"},
		{"kubelet/internal/qos", "pods without requests end first"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "kubelet/shutdown", closed: true, may: []allowance{
		{"k8s.io/api/core", kubeTypes},
	}},
}
