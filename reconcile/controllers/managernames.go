package controllers

// Known is a controller as Kubernetes knows it.
type Known struct {
	// Name is that of kube-controller-manager's --controllers, Alias the one it had
	// before version 1.27.
	Name, Alias string
	// Account is its service account in kube-system, to which the bootstrap policy
	// grants system:controller:Account. Empty is the manager's own identity.
	Account string
	// Component is whom its events are from.
	Component string
}

// KnownControllers are those of this package, in the order of their names.
func KnownControllers() []Known {
	return []Known{
		{"clusterrole-aggregation-controller", "clusterrole-aggregation", "clusterrole-aggregation-controller", "clusterrole-aggregation-controller"},
		{"deployment-controller", "deployment", "deployment-controller", "deployment-controller"},
		{"disruption-controller", "disruption", "disruption-controller", "controllermanager"},
		{"endpoints-controller", "endpoint", "endpoint-controller", "endpoint-controller"},
		{"endpointslice-controller", "endpointslice", "endpointslice-controller", "endpoint-slice-controller"},
		{"endpointslice-mirroring-controller", "endpointslicemirroring", "endpointslicemirroring-controller", "endpoint-slice-mirroring-controller"},
		{"garbage-collector-controller", "garbagecollector", "generic-garbage-collector", "garbage-collector-controller"},
		{"job-controller", "job", "job-controller", "job-controller"},
		{"namespace-controller", "namespace", "namespace-controller", "namespace-controller"},
		{"node-ipam-controller", "nodeipam", "node-controller", "cidrAllocator"},
		{"node-lifecycle-controller", "nodelifecycle", "node-controller", "node-controller"},
		{"pod-garbage-collector-controller", "podgc", "pod-garbage-collector", "pod-garbage-collector-controller"},
		{"replicaset-controller", "replicaset", "replicaset-controller", "replicaset-controller"},
		{"replicationcontroller-controller", "replicationcontroller", "replication-controller", "replication-controller"},
		{"resourcequota-controller", "resourcequota", "resourcequota-controller", "resourcequota-controller"},
		{"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", "root-ca-cert-publisher", "root-ca-certificate-publisher-controller"},
		{"serviceaccount-controller", "serviceaccount", "service-account-controller", "serviceaccount-controller"},
		{"serviceaccount-token-controller", "serviceaccount-token", "", "serviceaccount-token-controller"},
		{"taint-eviction-controller", "", "node-controller", "taint-eviction-controller"},
		{"ttl-after-finished-controller", "ttl-after-finished", "ttl-after-finished-controller", "ttl-after-finished-controller"},
	}
}
