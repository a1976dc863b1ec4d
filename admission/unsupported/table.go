package unsupported

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A Row names a kind or a field that is stored and has no effect.
type Row struct {
	// In is the resource, as in "services" or "ingresses.networking.k8s.io", or [Pods].
	In string
	// Path is the field, as in "spec.ports[].nodePort"; empty for the whole kind. For [Pods] it is
	// relative to the pod's spec.
	Path string
	// Effect describes what happens instead. Messages append it to the path and a colon.
	Effect string
	// When reports whether a value asks for what is missing; nil means any nonzero value. parents
	// are pointers to the structs around the field, the object first. Neither may be changed. For a
	// row without a path, value is the object.
	When func(value any, parents []any) bool
}

// Pods stands for the specs of pods and of the templates of workloads.
const Pods = "pod specs"

// templates maps resources to the path of their pod spec.
var templates = map[string]string{
	"pods":                   "spec.",
	"deployments.apps":       "spec.template.spec.",
	"replicasets.apps":       "spec.template.spec.",
	"jobs.batch":             "spec.template.spec.",
	"replicationcontrollers": "spec.template.spec.",
}

// objects maps resources with rows about fields to their Go types.
var objects = map[string]any{
	"pods":                   &corev1.Pod{},
	"deployments.apps":       &appsv1.Deployment{},
	"replicasets.apps":       &appsv1.ReplicaSet{},
	"jobs.batch":             &batchv1.Job{},
	"replicationcontrollers": &corev1.ReplicationController{},
	"services":               &corev1.Service{},
	"nodes":                  &corev1.Node{},
	"namespaces":             &corev1.Namespace{},
}

// paths returns the row's path and, for a field of containers, that of init containers.
func (r Row) paths() []string {
	if rest, ok := strings.CutPrefix(r.Path, "containers[]."); ok {
		return []string{r.Path, "initContainers[]." + rest}
	}
	return []string{r.Path}
}

// Table returns all rows for planekit: its controllers, scheduler, kubelet and example cluster.
func Table() []Row {
	return slices.Concat(kinds(), clusterFields(), podFields(), containerFields())
}

// kinds are the rows of kinds without any effect.
func kinds() []Row {
	return []Row{
		{In: "statefulsets.apps", Effect: "no controller acts on it yet: no pods are made"},
		{In: "daemonsets.apps", Effect: "no controller acts on it yet: no pods are made"},
		{In: "cronjobs.batch", Effect: "no controller acts on it yet: no jobs are made"},
		{In: "podtemplates", Effect: "nothing makes pods of it"},
		{In: "persistentvolumes", When: unmountablePersistent,
			Effect: "no node mounts this kind of volume yet: pods that use it do not start (local and hostPath with a file system work)"},
		{In: "storageclasses.storage.k8s.io", When: provisions,
			Effect: "no provisioner is part of the cluster: claims get the volumes that exist, unless you run one"},
		{In: "csidrivers.storage.k8s.io", Effect: "nothing talks to CSI drivers yet"},
		{In: "csistoragecapacities.storage.k8s.io", Effect: "the scheduler does not look at the capacity of storage yet"},
		{In: "volumeattachments.storage.k8s.io", Effect: "nothing attaches volumes yet"},
		{In: "ingresses.networking.k8s.io", Effect: "no ingress controller is part of the cluster: nothing is reachable through it unless you run one"},
		{In: "ingressclasses.networking.k8s.io", Effect: "no ingress controller is part of the cluster"},
		{In: "networkpolicies.networking.k8s.io", Effect: "nothing enforces it on these nodes: all pods reach each other"},
	}
}

// clusterFields are the fields of resources that are not workloads.
func clusterFields() []Row {
	return []Row{
		{In: "services", Path: "spec.clusterIP", When: isNot(corev1.ClusterIPNone),
			Effect: "nothing forwards from cluster IPs to pods yet: clients reach the pods by their own addresses"},
		{In: "services", Path: "spec.ports[].nodePort", Effect: "no node listens on node ports yet"},
		{In: "services", Path: "spec.type", When: is(corev1.ServiceTypeLoadBalancer), Effect: "nothing makes load balancers: the external address stays pending"},
		{In: "services", Path: "spec.externalName", Effect: "these nodes have no DNS that would answer with it"},
		{In: "services", Path: "spec.externalIPs", Effect: "nothing forwards from external addresses to pods yet"},
		{In: "services", Path: "spec.sessionAffinity", When: is(corev1.ServiceAffinityClientIP), Effect: "nothing forwards to pods yet, so no client stays with one"},
		{In: "services", Path: "spec.loadBalancerIP", Effect: "nothing makes load balancers"},
		{In: "services", Path: "spec.loadBalancerSourceRanges", Effect: "nothing makes load balancers, so nothing filters"},
		{In: "services", Path: "spec.externalTrafficPolicy", When: is(corev1.ServiceExternalTrafficPolicyLocal), Effect: "nothing forwards from node ports to pods yet"},
		{In: "services", Path: "spec.healthCheckNodePort", Effect: "no node answers health checks of load balancers yet"},
		{In: "services", Path: "spec.internalTrafficPolicy", When: isPointerTo(corev1.ServiceInternalTrafficPolicyLocal), Effect: "nothing forwards from cluster IPs to pods yet"},
		{In: "services", Path: "spec.trafficDistribution", Effect: "endpoint slices carry the hints, and nothing that forwards reads them yet"},
	}
}

// unmountablePersistent reports whether no node can mount a persistent volume.
func unmountablePersistent(value any, _ []any) bool {
	v, ok := value.(*corev1.PersistentVolume)
	return ok && (v.Spec.Local == nil && v.Spec.HostPath == nil || v.Spec.VolumeMode != nil && *v.Spec.VolumeMode == corev1.PersistentVolumeBlock)
}

// provisions reports whether volumes of a storage class would have to be made.
func provisions(value any, _ []any) bool {
	class, ok := value.(*storagev1.StorageClass)
	return ok && class.Provisioner != "kubernetes.io/no-provisioner"
}

// is returns a condition that is true for one value.
func is[T comparable](want T) func(any, []any) bool {
	return func(value any, _ []any) bool { return value == any(want) }
}

// isNot returns a condition that is false for one value.
func isNot[T comparable](but T) func(any, []any) bool {
	return func(value any, _ []any) bool { return value != any(but) }
}

// isPointerTo returns a condition that is true for a pointer to one value.
func isPointerTo[T comparable](want T) func(any, []any) bool {
	return func(value any, _ []any) bool {
		p, ok := value.(*T)
		return ok && p != nil && *p == want
	}
}
