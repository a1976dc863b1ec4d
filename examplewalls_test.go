package planekit_test

// exampleWalls holds the walls of the example programs. Parts of a program are before the program.
var exampleWalls = []wall{
	{packages: "examples/cluster/offline", closed: true, may: []allowance{
		{"github.com/google/go-containerregistry", "layers, manifests and the registry's protocol"},
		{"cni", "its file lock: one process builds an image at a time"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "examples/cluster/containerd", closed: true, may: []allowance{
		{"github.com/go-logr/logr", logging},
		{"go.etcd.io/bbolt", "containerd's database of snapshots"},
	}},
	{packages: "examples/cluster/machine", closed: true, may: []allowance{{"cni/bridge", "what links have"}, {"cni/portmap", "rules without an owner are removed"}, {"examples/cluster/containerd", "daemons without an owner are ended"}, {"github.com/go-logr/logr", logging}}},
	{packages: "examples/cluster", closed: true, may: []allowance{
		{"plane", "it is a control plane, with flags and machines"},
		{"admission/unsupported", "what its nodes act on is not warned about"},
		{"apiserver", "here the rooms are joined"},
		{"authn", "here the rooms are joined"},
		{"client", "here the rooms are joined"},
		{"cni", "here the rooms are joined"},
		{"kubelet", "here the rooms are joined"},
		{"reconcile", "here the rooms are joined"},
		{"storage", "here the rooms are joined"},
		{"examples/cluster", "its own parts"},
		{"k8s.io/cri-api", "a runtime is asked where it looks for networks"},
		{"github.com/spf13", "the command line"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "examples/planectl", closed: true, may: []allowance{
		{"client", "it is the client's program"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/spf13", "the command line"},
	}},

	{packages: "examples/apiserver", closed: true, may: []allowance{
		{"admission", "here the rooms are joined"},
		{"apiserver", "here the rooms are joined"},
		{"authn", "here the rooms are joined"},
		{"authz", "here the rooms are joined"},
		{"client", "here the rooms are joined"},
		{"informer", "here the rooms are joined"},
		{"reconcile/controllers", "aggregated roles show their rules"},
		{"storage", "here the rooms are joined"},
		{"plane/bootstrap", "the objects that every server begins with"},
		{"plane/credentials", "certificates that survive a restart"},
		{"k8s.io/api/core", kubeTypes},
		{"golang.org/x/sync", "the parts run and end together"},
		{"github.com/go-logr/logr", logging},
	}},

	{packages: "examples/embed", closed: true, may: []allowance{
		{"apiserver", "it embeds a server"},
		{"authn", "here the rooms are joined"},
		{"authz", "here the rooms are joined"},
		{"storage", "here the rooms are joined"},
		{"k8s.io/apimachinery", machinery},
	}},

	{packages: "examples/admission", closed: true, may: []allowance{
		{"admission", "it is admission's program"},
		{"apiserver", "it embeds a server"},
		{"authn", "here the rooms are joined"},
		{"authz", "here the rooms are joined"},
		{"storage", "here the rooms are joined"},
		{"k8s.io/api/core", kubeTypes},
	}},
	{packages: "examples/initializer", closed: true, may: []allowance{
		{"client/kubeconfig", "it finds the cluster as kubectl does"},
		{"reconcile/initializer", "it is two of its loops"},
		{"k8s.io/api/core", kubeTypes},
		{"golang.org/x/sync", "the parts run and end together"},
	}},

	{packages: "examples/policy", closed: true, may: []allowance{
		{"admission", "it has a plugin"},
		{"plane", "it is a whole cluster"},
		{"k8s.io/api/apps", kubeTypes},
	}},
	{packages: "examples/configmaps", closed: true, may: []allowance{
		{"client", "here the rooms are joined"},
		{"informer", "here the rooms are joined"},
		{"reconcile", "here the rooms are joined"},
		{"golang.org/x/sync/errgroup", "its parts end together"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "examples/controller", closed: true, may: []allowance{
		{"apiserver", "its type has a server to try it on"},
		{"plane", "its type has a server to try it on"},
		{"client", "here the rooms are joined"},
		{"informer", "here the rooms are joined"},
		{"reconcile", "here the rooms are joined"},
		{"golang.org/x/sync/errgroup", "its parts end together"},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "examples/customscheduler", closed: true, may: []allowance{
		{"client", "here the rooms are joined"},
		{"schedule", "it is a scheduler"},
	}},
	{packages: "examples/widgets", closed: true, may: []allowance{
		{"apiserver", "it embeds a server"},
		{"authn", "here the rooms are joined"},
		{"authz", "here the rooms are joined"},
		{"client", "here the rooms are joined"},
		{"informer", "here the rooms are joined"},
		{"reconcile", "here the rooms are joined"},
		{"storage", "here the rooms are joined"},
		{"pki", "certificates that survive a restart"},
		{"k8s.io/apimachinery", machinery},
		{"golang.org/x/sync", "the parts run and end together"},
	}},
}
