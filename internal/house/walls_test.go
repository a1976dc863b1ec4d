package house

import "slices"

// wall says what the packages below a folder may import beyond the standard library. The first wall
// that names a package, and every later one up to the next that is closed, is asked in order.
type wall struct {
	packages string
	may      []allowance
	// closed ends the search: what is not allowed up to here is not allowed.
	closed bool
}

type allowance struct {
	// path and everything below it may be imported. A path of this module is given from its root.
	path string
	why  string
}

// Reasons that recur.
const (
	sharedNoun  = "the one noun that everybody shares"
	itsRoom     = "the contract of its own room"
	oneTable    = "kinds are described in one table"
	oneKind     = "a kind is described once, for servers and clients"
	kubeTypes   = "the objects are Kubernetes's"
	machinery   = "names, status errors, selectors and quantities are Kubernetes's"
	logging     = "the one logging interface"
	celAlike    = "expressions are read and bounded alike, whoever writes them"
	claimsAlike = "scheduler, controllers and kubelet must agree which volume a claim has"
	calledAlike = "webhooks of which objects tell are called in one way"
	askedAlike  = "webhooks of authentication and authorization are asked in one way"
)

// walls is the whole list, room by room; within a room the innermost first.
var walls = slices.Concat(requestWalls, nodeWalls, serviceWalls, exampleWalls, sharedWalls, otherWalls)

// otherWalls holds the walls of all rooms but admission and apiserver.
var otherWalls = []wall{
	{packages: "authn/user", closed: true},
	{packages: "authn/internal/keyed", closed: true},
	{packages: "authn/internal/clientcert", closed: true},
	{packages: "authn/internal/certtest", closed: true},
	{packages: "authn/internal/userlist", closed: true, may: []allowance{{"authn/user", sharedNoun}}},
	{packages: "authn/basicauth", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn/internal/keyed", "secrets are looked up in one place"},
		{"authn/internal/userlist", "files that list users are read in one place"},
		{"authn", "two Authorization headers are one error"},
	}},
	{packages: "authn/tokenfile", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn/internal/keyed", "secrets are looked up in one place"},
		{"authn/internal/userlist", "files that list users are read in one place"},
		{"authn", "a bearer token is taken out of a header in one place"},
	}},
	{packages: "authn/serviceaccount", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn", "a bearer token is taken out of a header in one place"},
		{"github.com/golang-jwt/jwt/v5", "signatures of JSON Web Tokens"},
	}},
	{packages: "authn/oidc", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn", "a bearer token is taken out of a header in one place"},
		// Not coreos/go-oidc, which fetches keys for every token with an unknown key and reads answers of any
		// size, nor go-jose for the key sets: a key is three numbers, and one library is enough.
		{"github.com/golang-jwt/jwt/v5", "signatures of JSON Web Tokens"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "authn/structured", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn/oidc", "it is another way to configure it"},
		{"internal/kubecel", celAlike},
		{"github.com/google/cel-go", "it gives expressions the claims of tokens"},
		{"k8s.io/apimachinery/pkg/util/validation", "errors name their field, as in kube-apiserver"},
		{"sigs.k8s.io/yaml", "its configuration is YAML"},
		{"sigs.k8s.io/json", "which is read strictly"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "authn/bootstraptoken", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn", "a bearer token is taken out of a header in one place"},
	}},
	{packages: "authn/tokencache", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn/internal/keyed", "tokens are remembered by digest alone"},
		{"authn", "it asks an authenticator and is one"},
	}},
	{packages: "authn/x509", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn/internal/clientcert", "certificates are verified in one place"},
	}},
	{packages: "authn/requestheader", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn/internal/clientcert", "certificates are verified in one place"},
	}},
	{packages: "authn/reload", closed: true, may: []allowance{
		{"internal/lastvalid", "files that change are followed in one way"},
		{"authn/user", sharedNoun},
		{"authn", "an authenticator that follows a file is one"},
	}},
	{packages: "authn/webhook", closed: true, may: []allowance{
		{"authn/user", sharedNoun},
		{"authn", "a bearer token is taken out of a header in one place"},
		{"internal/webhook", askedAlike},
	}},
	{packages: "authn", closed: true, may: []allowance{{"authn/user", sharedNoun}}},

	{packages: "authz/node", closed: true, may: []allowance{
		{"authz", itsRoom},
		{"authn/user", sharedNoun},
		{"k8s.io/api/core", "pods and volumes say what a node needs"},
		{"k8s.io/api/storage", "attachments of volumes are to nodes"},
		{"k8s.io/api/resource", "resource slices are of nodes"},
	}},
	{packages: "authz/rbac", closed: true, may: []allowance{
		{"authz", itsRoom},
		{"authn/user", sharedNoun},
		{"k8s.io/api/rbac", "roles and bindings are Kubernetes's"},
		{"k8s.io/apimachinery", "aggregation selects by label, and reconciling compares by meaning"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "authz/abac", closed: true, may: []allowance{
		{"authz", itsRoom},
		{"authn/user", sharedNoun},
	}},
	{packages: "authz/webhook", closed: true, may: []allowance{
		{"authz", itsRoom},
		{"authn/user", sharedNoun},
		{"internal/webhook", askedAlike},
	}},
	{packages: "authz", closed: true, may: []allowance{{"authn/user", sharedNoun}}},

	{packages: "storage/memstore", closed: true, may: []allowance{
		{"storage", itsRoom},
		{"github.com/google/btree", "a tree that can be cloned in constant time"},
	}},
	{packages: "storage/storagetest", closed: true, may: []allowance{
		{"storage", itsRoom},
		{"github.com/anishathalye/porcupine", "the search for an order that explains a history"},
	}},
	{packages: "storage/encrypted", closed: true, may: []allowance{
		{"storage", itsRoom},
		{"sigs.k8s.io/yaml", "Kubernetes' encryption configuration is YAML"},
	}},
	{packages: "storage/etcdstore/embedded", closed: true, may: []allowance{
		{"go.etcd.io/etcd", "it is etcd"},
		{"go.etcd.io/raft", "its error identifies a harmless panic"},
		{"go.etcd.io/bbolt", "a snapshot is a database of it"},
		{"go.uber.org/zap", "etcd logs to nothing else"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "storage/etcdstore", closed: true, may: []allowance{
		{"storage", itsRoom},
		{"go.etcd.io/etcd", "the client and its error codes"},
		{"google.golang.org/grpc", "the client's errors are gRPC's"},
		{"go.uber.org/zap", "the client logs to nothing else"},
	}},
	{packages: "storage/cache", closed: true, may: []allowance{
		{"storage", itsRoom},
		{"github.com/google/btree", "a tree that can be cloned in constant time"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "storage", closed: true},

	{packages: "kinds/internal/protobuf", closed: true, may: []allowance{{"google.golang.org/protobuf/encoding/protowire", "the encoding of numbers"}}},
	{packages: "kinds/apiextensions", closed: true, may: []allowance{
		{"kinds/internal/protobuf", "messages are written in one way"},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "kinds/apiregistration", closed: true, may: []allowance{
		{"kinds/internal/protobuf", "messages are written in one way"},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "kinds/kind", closed: true, may: []allowance{{"k8s.io/apimachinery", machinery}}},
	{packages: "kinds", closed: true, may: []allowance{
		{"kinds/apiregistration", itsRoom},
		{"kinds/kind", itsRoom},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},

	{packages: "client/kubeconfig", may: []allowance{{"internal/wholefile", "files are written whole or not at all in one way"}, {"internal/certfile", "clients and servers follow their files in one way"}, {"internal/lastvalid", "files that change are followed in one way"}}},
	{packages: "client/typed", may: []allowance{{"kinds", oneTable}}},
	{packages: "client", closed: true, may: []allowance{
		{"client", itsRoom},
		{"kinds/kind", oneKind},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"sigs.k8s.io/yaml", "kubeconfig files and -o yaml"},
		{"github.com/go-logr/logr", logging},
	}},

	{packages: "informer/informertest", closed: true, may: []allowance{{"informer", itsRoom}}},
	{packages: "informer", closed: true, may: []allowance{{"github.com/go-logr/logr", logging}}},

	{packages: "reconcile/controllers/bootstrap", may: []allowance{{"pki/clusterinfo", "who signs and who verifies must agree"}}},
	{packages: "reconcile/controllers/certificates", may: []allowance{{"authn/user", sharedNoun}}},
	{packages: "reconcile/controllers", closed: true, may: []allowance{
		{"reconcile", itsRoom},
		{"internal/usage", "who charges a quota and who counts anew must agree"},
		{"internal/volumeclaim", claimsAlike},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "reconcile/initializer", closed: true, may: []allowance{
		{"reconcile", itsRoom},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "reconcile/lease", closed: true, may: []allowance{
		{"reconcile", itsRoom},
		{"k8s.io/api/coordination", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "reconcile/metrics", closed: true, may: []allowance{
		{"reconcile", itsRoom},
		{"github.com/prometheus/client_golang", "the one leaf of the room that speaks to Prometheus"},
	}},
	{packages: "reconcile", closed: true, may: []allowance{{"github.com/go-logr/logr", logging}}},

	{packages: "schedule/remote", closed: true, may: []allowance{
		{"schedule", itsRoom},
		{"client", "it joins a scheduler to a cluster"},
		{"informer", "it joins a scheduler to a cluster"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "schedule/metrics", may: []allowance{
		{"github.com/prometheus/client_golang", "the one leaf of the room that speaks to Prometheus"},
	}},
	{packages: "schedule/policy", may: []allowance{
		{"sigs.k8s.io/json", "fields are decoded strictly"},
		{"sigs.k8s.io/yaml", "the file is YAML"},
	}},
	{packages: "schedule/simulate", may: []allowance{
		{"internal/yamljson", "manifests may be YAML"},
		{"k8s.io/api/apps", kubeTypes},
		{"k8s.io/api/scheduling", kubeTypes},
	}},
	{packages: "schedule/volumebinding", may: []allowance{{"internal/volumeclaim", claimsAlike}, {"k8s.io/api/storage", kubeTypes}}},
	{packages: "schedule/volumes", may: []allowance{{"internal/volumeclaim", claimsAlike}, {"k8s.io/api/storage", kubeTypes}}},
	{packages: "schedule/workload", may: []allowance{{"k8s.io/api/apps", kubeTypes}}},
	{packages: "schedule", closed: true, may: []allowance{
		{"schedule", itsRoom},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/api/policy", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},

	{packages: "metricsapi/internal/promtext", closed: true},
	{packages: "metricsapi", closed: true, may: []allowance{
		{"metricsapi/internal/promtext", "answers of kubelets are read in one place"},
		{"authn/user", sharedNoun},
		{"authz", "its requests have attributes for an authorizer"},
		{"k8s.io/api/core", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},

	{packages: "cni/bridge", closed: true, may: []allowance{
		{"cni", itsRoom}, {"github.com/google/nftables", "guards against spoofed addresses"}, {"github.com/mdlayher/netlink", "their connections"},
		{"github.com/vishvananda/netlink", "links, addresses and routes"},
		{"github.com/vishvananda/netns", "work inside the container's namespace"},
		{"golang.org/x/sys", "the kernel's constants"},
	}},
	{packages: "cni/loopback", closed: true, may: []allowance{
		{"cni", itsRoom},
		{"github.com/vishvananda/netlink", "links, addresses and routes"},
		{"github.com/vishvananda/netns", "work inside the container's namespace"},
		{"golang.org/x/sys", "the kernel's constants"},
	}},
	{packages: "cni/overlay/overlaytest", closed: true, may: []allowance{
		{"github.com/vishvananda/netlink", "links, addresses and routes of the machines that it makes"},
		{"github.com/vishvananda/netns", "machines are network namespaces"},
		{"golang.org/x/sys", "the kernel's constants"},
	}},
	{packages: "cni/overlay/leases", closed: true, may: []allowance{
		{"cni/overlay", "leases are members"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "cni/overlay", closed: true, may: []allowance{
		{"github.com/google/nftables", "the guard of its port and ranges"}, {"github.com/mdlayher/netlink", "its connections"},
		{"github.com/vishvananda/netlink", "links, addresses, routes, neighbours and FDB entries"},
		{"github.com/vishvananda/netns", "work inside a machine's namespace"},
		{"golang.org/x/sys", "the kernel's constants"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "cni/portmap", closed: true, may: []allowance{
		{"cni", itsRoom}, {"golang.org/x/sys", "the kernel's constants"},
		{"github.com/google/nftables", "tables of the kernel, without a program"}, {"github.com/mdlayher/netlink", "its connections"},
		{"github.com/vishvananda/netlink", "routes, connections, and listings that say when they are torn"},
	}},
	{packages: "cni", closed: true, may: []allowance{
		{"cni", itsRoom}, {"internal/wholefile", "files are written whole or not at all in one way"},
		{"github.com/go-logr/logr", logging},
	}},

	{packages: "plane/customresources", closed: true, may: []allowance{
		{"plane", itsRoom},
		{"apiserver/crd", "it adds this to a control plane"},
		{"apiserver/aggregate", "conversion webhooks are found by the endpoints of services"},
		{"client", "it installs definitions"},
		{"kinds/apiextensions", oneTable},
		{"kinds/kind", oneKind},
		{"k8s.io/apimachinery", machinery},
		{"sigs.k8s.io/yaml", "definitions come in YAML"},
	}},
	{packages: "plane/embeddedetcd", closed: true, may: []allowance{
		{"plane/stack", "an etcd stops in its turn"},
		{"storage", "it joins an etcd and its store"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/stack", closed: true, may: []allowance{{"github.com/go-logr/logr", logging}}},
	{packages: "plane/caches", closed: true, may: []allowance{
		{"plane/stack", "caches are started and stopped in their turn"},
		{"informer", "it makes them"},
		{"client", "they are read by a client, typed"},
		{"kinds", oneTable},
		{"apiserver", "its table of resources names the kinds, and services index slices"},
		{"reconcile/controllers", "controllers say by what objects are found, collected and counted"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/bootstrap", closed: true, may: []allowance{
		{"apiserver", "namespaces, priority classes and APIServices of a server"},
		{"authz/rbac", "the policy of every cluster"},
		{"client", "objects are written by a client"},
		{"reconcile/controllers", "the ConfigMap that a controller keeps"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"golang.org/x/sync", "bootstrap objects are written side by side"},
	}},
	{packages: "plane/authorizers", closed: true, may: []allowance{
		{"plane/caches", "authorizers read them"},
		{"plane/stack", "authorizers run in their turn"},
		{"authn/user", sharedNoun},
		{"authz", "here its authorizers are joined"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/pluginset", closed: true, may: []allowance{
		{"kinds/kind", oneKind},
		{"plane/authorizers", "plugins ask what users may do"},
		{"plane/caches", "plugins read them"},
		{"plane/stack", "plugins run in their turn"},
		{"admission", "here its plugins are joined"},
		{"apiserver", "the plugins are part of its configuration"},
		{"client", "plugins read what a cache does not have"},
		{"internal/mergeschema", "policies change objects as their schemas say"},
		{"sigs.k8s.io/structured-merge-diff/v6", "policies change objects as their schemas say"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/controllerset", closed: true, may: []allowance{
		{"kinds", oneTable},
		{"plane/caches", "controllers read them"},
		{"plane/stack", "controllers run in their turn"},
		{"reconcile", "here its controllers are joined"},
		{"service/loadbalancer", "it is the controller of load balancers"},
		{"admission/policy", "its check of types is a controller's"},
		{"internal/kubecel/openapi", "types are read from the server's documents"},
		{"authn", "each controller is a service account"},
		{"client", "controllers write by clients"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/credentials", closed: true, may: []allowance{
		{"pki", "it makes and keeps certificates"},
		{"authn", "its authorities say whom they have signed for"},
		{"client/kubeconfig", "the administrator's file"},
	}},
	{packages: "plane/join", closed: true, may: []allowance{
		{"internal/wholefile", "files are written whole or not at all in one way"},
		{"pki/clusterinfo", "who signs and who verifies must agree"},
		{"authn", "a node is a user, and joins by a bootstrap token"},
		{"client", "a node acts by a client"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"sigs.k8s.io/yaml", "the kubeconfig of a cluster is YAML"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/nodes", closed: true, may: []allowance{
		{"plane", itsRoom},
		{"kubelet", "a node is a kubelet"},
		{"apiserver/kube/core", "static pods are completed and validated as other pods are"},
		{"authn", "kubelets verify certificates"},
		{"authz", "kubelets ask what users may do"},
		{"client", "a kubelet acts by a client"},
		{"informer", "a kubelet reads the cache of its pods"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"k8s.io/cri-api", "containers in memory are told from their configuration"},
		{"google.golang.org/grpc/test/bufconn", "a runtime in memory needs no socket"},
		{"github.com/go-logr/logr", logging},
		{"reconcile/controllers", "services are found by namespace as controllers do"},
	}},
	{packages: "plane/overlays", closed: true, may: []allowance{
		{"cni/overlay", "nodes and leases are members"},
		{"storage", "leases are kept in a store"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/podnetwork", closed: true, may: []allowance{
		{"plane/caches", "overlays and proxies read them"},
		{"plane/overlays", "nodes are members of an overlay"},
		{"plane/stack", "overlays and proxies stop in their turn"},
		{"cni/overlay", "it carries packets to other nodes"},
		{"service/proxy", "it makes the addresses of services lead to pods"},
		{"service/dns", "it answers to the names of services"},
		{"service/policy", "it enforces the policies of pods"},
		{"github.com/prometheus/client_golang", "the metrics of a node are served"},
		{"authn/user", sharedNoun},
		{"client", "the network is published and read by clients"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/observe", closed: true, may: []allowance{
		{"admission", "it shows what plugins and webhooks take"},
		{"plane", itsRoom},
		{"apiserver", "it has metrics, hooks and handlers"},
		{"reconcile/metrics", "metrics of controllers"},
		{"schedule", "metrics of decisions"},
		{"storage", "keys of the store are named by resource"},
		{"k8s.io/apimachinery", machinery},
	}},
	{packages: "plane/standalone", closed: true, may: []allowance{
		{"plane/stack", "the parts stop in reverse order"},
		{"kubelet", "a node is a kubelet"},
		{"apiserver/kube/core", "pods are completed and validated as an API server does"},
		{"authn/x509", "clients of its server have certificates"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/metricsserver", closed: true, may: []allowance{
		{"plane", itsRoom},
		{"metricsapi", "here the rooms are joined"},
		{"authn", "the front proxy says who asks"},
		{"authz", "users may do what the control plane lets them"},
		{"client", "it is registered by a client"},
		{"kinds/apiregistration", oneTable},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/planetest", closed: true, may: []allowance{
		{"plane", itsRoom},
		{"kinds/apiextensions", "it installs definitions"},
		{"authn/user", sharedNoun},
		{"client", "tests act by clients"},
		{"apiserver", "it chooses the UIDs of new objects"},
		{"k8s.io/apimachinery", machinery},
		{"google.golang.org/grpc/test/bufconn", "connections in memory"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "plane/kubeflags", closed: true, may: []allowance{
		{"pki/servingcert", "flags name the certificates that it serves"},
		{"plane", itsRoom},
		{"admission/plugins", "flags configure plugins"},
		{"admission/initialresources", "its flags need a source of usage"},
		{"apiserver", "the audit log is one of its settings"},
		{"authn", "flags choose authenticators"},
		{"authz", "flags choose authorizers"},
		{"client", "webhooks are described by a kubeconfig"},
		{"kubelet/server", "nodes report usage in its form"},
		{"reconcile/controllers/autoscale", "flags set the times of autoscalers"},
		{"reconcile/controllers/node", "flags limit evictions"},
		{"k8s.io/api/core", kubeTypes},
		{"github.com/spf13/pflag", "the command line"},
		{"github.com/go-logr/logr", logging},
	}},
	// Neither kubelet, CRI, etcd nor Prometheus: those are for the program.
	{packages: "plane", closed: true, may: []allowance{
		{"plane", "its own parts"},
		{"pki/servingcert", "certificates of an operator's are served too"},
		{"apiserver", "here the rooms are joined"},
		{"authn", "here the rooms are joined"},
		{"authz", "here the rooms are joined"},
		{"client", "here the rooms are joined"},
		{"schedule", "here the rooms are joined"},
		{"storage/memstore", "objects are in memory unless the program has a store"},
		{"storage", "here the rooms are joined"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},

	{packages: "pki/clusterinfo", closed: true},
	{packages: "pki/servingcert", may: []allowance{{"pki", itsRoom}, {"internal/certfile", "clients and servers follow their files in one way"}, {"internal/lastvalid", "files that change are followed in one way"}}},
	{packages: "pki", closed: true, may: []allowance{{"authn/user", sharedNoun}, {"internal/wholefile", "files are written whole or not at all in one way"}}},
	{packages: "internal/scenario", closed: true, may: []allowance{
		{"github.com/rogpeppe/go-internal", "the language of the scripts"},
	}},
	{packages: "internal", closed: true},
}
