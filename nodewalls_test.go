package planekit_test

// nodeWalls holds the walls of the kubelet's parts for the resources of pods.
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
}
