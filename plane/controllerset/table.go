package controllerset

import (
	"context"

	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"github.com/planekit/planekit/reconcile/controllers/clusterrole"
	"github.com/planekit/planekit/reconcile/controllers/deployment"
	"github.com/planekit/planekit/reconcile/controllers/disruption"
	"github.com/planekit/planekit/reconcile/controllers/endpoints"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"github.com/planekit/planekit/reconcile/controllers/job"
	"github.com/planekit/planekit/reconcile/controllers/namespace"
	"github.com/planekit/planekit/reconcile/controllers/node"
	"github.com/planekit/planekit/reconcile/controllers/quota"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	"github.com/planekit/planekit/reconcile/controllers/volume"
	"github.com/planekit/planekit/service/loadbalancer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// table returns the built-in controllers in the order of their names.
//
// Name is the name in kube-controller-manager's --controllers, Alias the one before version 1.27.
// Package authz/rbac grants the rights of Account.
func table() []Controller {
	return []Controller{
		{Name: "bootstrap-signer-controller", Alias: "bootstrapsigner", Account: "bootstrap-signer", New: (*Env).bootstrapSigner},
		{Name: "certificatesigningrequest-approving-controller", Alias: "csrapproving", Account: "certificate-controller", New: (*Env).approver},
		{Name: "certificatesigningrequest-cleaner-controller", Alias: "csrcleaner", Account: "certificate-controller", New: (*Env).requestCleaner},
		{Name: "certificatesigningrequest-signing-controller", Alias: "csrsigning", Account: "certificate-controller", New: (*Env).signer, lacks: needsAuthority},
		{Name: "clusterrole-aggregation-controller", Alias: "clusterrole-aggregation", Account: "clusterrole-aggregation-controller", New: (*Env).clusterRole},
		{Name: "deployment-controller", Alias: "deployment", Account: "deployment-controller", New: (*Env).deployment},
		{Name: "disruption-controller", Alias: "disruption", Account: "disruption-controller", Component: "controllermanager", New: (*Env).disruption},
		{Name: "endpoints-controller", Alias: "endpoint", Account: "endpoint-controller", Component: "endpoint-controller", New: (*Env).legacyEndpoints},
		{Name: "endpointslice-controller", Alias: "endpointslice", Account: "endpointslice-controller", Component: "endpoint-slice-controller", New: (*Env).endpointSlice},
		{Name: "endpointslice-mirroring-controller", Alias: "endpointslicemirroring", Account: "endpointslicemirroring-controller", Component: "endpoint-slice-mirroring-controller", New: (*Env).endpointSliceMirror},
		{Name: "ephemeral-volume-controller", Alias: "ephemeral-volume", Account: "ephemeral-volume-controller", Component: "ephemeral_volume", New: (*Env).ephemeralVolume},
		{Name: "garbage-collector-controller", Alias: "garbagecollector", Account: "generic-garbage-collector", New: (*Env).garbageCollector},
		{Name: "horizontal-pod-autoscaler-controller", Alias: "horizontalpodautoscaling", Account: "horizontal-pod-autoscaler", Component: "horizontal-pod-autoscaler", New: (*Env).autoscaler},
		{Name: "job-controller", Alias: "job", Account: "job-controller", New: (*Env).job},
		{Name: KubeletServingApprover, Account: ServingApproverAccount, New: (*Env).servingApprover},
		{Name: "namespace-controller", Alias: "namespace", Account: "namespace-controller", New: (*Env).namespace},
		{Name: "node-ipam-controller", Alias: "nodeipam", Account: "node-controller", Component: "cidrAllocator", New: (*Env).nodeIPAM, lacks: needsPodCIDR},
		{Name: "node-lifecycle-controller", Alias: "nodelifecycle", Account: "node-controller", Component: "node-controller", New: (*Env).nodeLifecycle},
		{Name: "persistentvolume-binder-controller", Alias: "persistentvolume-binder", Account: "persistent-volume-binder", Component: "persistentvolume-controller", New: (*Env).volumeBinder},
		{Name: "persistentvolume-protection-controller", Alias: "pv-protection", Account: "pv-protection-controller", New: (*Env).volumeProtection},
		{Name: "persistentvolumeclaim-protection-controller", Alias: "pvc-protection", Account: "pvc-protection-controller", New: (*Env).claimProtection},
		{Name: "pod-garbage-collector-controller", Alias: "podgc", Account: "pod-garbage-collector", New: (*Env).podGarbage},
		{Name: "replicaset-controller", Alias: "replicaset", Account: "replicaset-controller", New: (*Env).replicaSet},
		{Name: "replicationcontroller-controller", Alias: "replicationcontroller", Account: "replication-controller", Component: "replication-controller", New: (*Env).replicationController},
		{Name: "resourcequota-controller", Alias: "resourcequota", Account: "resourcequota-controller", New: (*Env).resourceQuota},
		{Name: "root-ca-certificate-publisher-controller", Alias: "root-ca-cert-publisher", Account: "root-ca-cert-publisher", New: (*Env).rootCA, lacks: needsRootCA},
		{Name: ServiceAddressRepair, Account: AddressRepairAccount, New: (*Env).addressRepair},
		{Name: "service-cidr-controller", Account: "service-cidrs-controller", New: (*Env).serviceRanges},
		{Name: "service-lb-controller", Alias: "service", Account: "service-controller", Component: "service-controller", New: (*Env).loadBalancers},
		{Name: "serviceaccount-controller", Alias: "serviceaccount", Account: "service-account-controller", New: (*Env).serviceAccount},
		{Name: "serviceaccount-token-controller", Alias: "serviceaccount-token", New: (*Env).token, lacks: needsSigner},
		{Name: "taint-eviction-controller", Account: "node-controller", New: (*Env).taintEviction},
		{Name: "token-cleaner-controller", Alias: "tokencleaner", Account: "token-cleaner", New: (*Env).tokenCleaner},
		{Name: "ttl-after-finished-controller", Alias: "ttl-after-finished", Account: "ttl-after-finished-controller", New: (*Env).ttlAfterFinished},
		{Name: "validatingadmissionpolicy-status-controller", Alias: "validatingadmissionpolicy-status", Account: "validatingadmissionpolicy-status-controller", New: (*Env).policyStatus},
	}
}

// needsRootCA, needsAuthority, needsSigner and needsPodCIDR return what a configuration lacks, or "".
func needsRootCA(c *Config) string {
	if len(c.RootCA) == 0 {
		return "no RootCA"
	}
	return ""
}

func needsAuthority(c *Config) string {
	if c.Authority == nil || c.AuthorityKey == nil {
		return "no Authority"
	}
	return ""
}

func needsSigner(c *Config) string {
	if c.SignToken == nil {
		return "no SignToken"
	}
	return needsRootCA(c)
}

func needsPodCIDR(c *Config) string {
	if !c.PodCIDR.IsValid() {
		return "no PodCIDR"
	}
	return ""
}

func (e *Env) deployment() (controllers.Runner, error) {
	return deployment.New(deployment.Config{
		Deployments:             e.Caches.Deployments,
		ReplicaSets:             e.Caches.ReplicaSets,
		Pods:                    e.Caches.Pods,
		ReplicaSetsByController: e.Caches.ReplicaSetsByController,
		PodsByController:        e.Caches.PodsByController,
		Writer:                  typed.Deployments(e.Client),
		ReplicaSetWriter:        typed.ReplicaSets(e.Client),
		Events:                  e.Events,
		Workers:                 e.Workers,
		Metrics:                 e.Metrics,
		Log:                     e.Log,
	})
}

func (e *Env) replicaSet() (controllers.Runner, error) {
	return replicaset.New(replicaset.Config{
		ReplicaSets:             e.Caches.ReplicaSets,
		Pods:                    e.Caches.Pods,
		ReplicaSetsByController: e.Caches.ReplicaSetsByController,
		PodsByController:        e.Caches.PodsByController,
		Writer:                  typed.ReplicaSets(e.Client),
		PodWriter:               typed.Pods(e.Client),
		Events:                  e.Events,
		Workers:                 e.Workers,
		Metrics:                 e.Metrics,
		Log:                     e.Log,
	})
}

func (e *Env) job() (controllers.Runner, error) {
	return job.New(job.Config{
		Jobs:             e.Caches.Jobs,
		Pods:             e.Caches.Pods,
		PodsByController: e.Caches.PodsByController,
		Writer:           typed.Jobs(e.Client),
		PodWriter:        typed.Pods(e.Client),
		Events:           e.Events,
		Workers:          e.Workers,
		Metrics:          e.Metrics,
		Log:              e.Log,
	})
}

// garbageCollector follows owner references between objects of all kinds that have a
// cache.
func (e *Env) garbageCollector() (controllers.Runner, error) {
	var kinds []garbage.Kind
	for _, k := range e.Caches.Kinds {
		kinds = append(kinds, k.Garbage(e.Client))
	}
	return garbage.New(garbage.Config{Kinds: kinds, Custom: collected{customObjects{e.Caches.Custom}, e.Client}, Workers: e.Workers, Metrics: e.Metrics, Log: e.Log})
}

// resourceQuota counts the objects of all kinds in namespaces that have a cache.
func (e *Env) resourceQuota() (controllers.Runner, error) {
	var kinds []quota.Kind
	for _, k := range e.Caches.Kinds {
		if k.Namespaced {
			kinds = append(kinds, k.Quota())
		}
	}
	return quota.New(quota.Config{
		ResourceQuotas: e.Caches.ResourceQuotas,
		Kinds:          kinds,
		Custom:         counted{customObjects{e.Caches.Custom}},
		Writer:         typed.ResourceQuotas(e.Client),
		Workers:        e.Workers,
		Metrics:        e.Metrics,
		Log:            e.Log,
	})
}

// clusterRole writes the rules of aggregated roles, such as view, into them.
func (e *Env) clusterRole() (controllers.Runner, error) {
	return clusterrole.New(clusterrole.Config{
		ClusterRoles: e.Caches.ClusterRoles,
		Writer:       typed.ClusterRoles(e.Client),
		Workers:      e.Workers,
		Metrics:      e.Metrics,
		Log:          e.Log,
	})
}

func (e *Env) token() (controllers.Runner, error) {
	return account.NewToken(account.TokenConfig{
		ServiceAccounts:      e.Caches.ServiceAccounts,
		Secrets:              e.Caches.Secrets,
		SecretsByNamespace:   e.Caches.SecretsByNamespace,
		ServiceAccountWriter: typed.ServiceAccounts(e.Client),
		Writer:               typed.Secrets(e.Client),
		Sign:                 e.config.SignToken,
		CA:                   e.config.RootCA,
		Workers:              e.Workers,
		Metrics:              e.Metrics,
		Log:                  e.Log,
	})
}

func (e *Env) rootCA() (controllers.Runner, error) {
	return account.NewRootCA(account.RootCAConfig{
		Namespaces: e.Caches.Namespaces,
		ConfigMaps: e.Caches.ConfigMaps,
		Writer:     typed.ConfigMaps(e.Client),
		CA:         e.config.RootCA,
		Workers:    e.Workers,
		Metrics:    e.Metrics,
		Log:        e.Log,
	})
}

func (e *Env) namespace() (controllers.Runner, error) {
	return namespace.New(namespace.Config{
		Namespaces:   e.Caches.Namespaces,
		Contents:     e.contents,
		Writer:       finalizer{e.Client},
		StatusWriter: typed.Namespaces(e.Client),
		Workers:      e.Workers,
		Metrics:      e.Metrics,
		Log:          e.Log,
	})
}

// loadBalancers gives addresses of the pool. Without a pool it does nothing, as in a cluster without a provider.
func (e *Env) loadBalancers() (controllers.Runner, error) {
	if len(e.config.LoadBalancerPool) == 0 {
		return idle{}, nil
	}
	return loadbalancer.New(loadbalancer.Config{
		Services: e.Caches.Services, Writer: typed.Services(e.Client), Pool: e.config.LoadBalancerPool, Events: serviceEvents{e.Events}, Log: e.Log.WithName("service-lb-controller"),
	})
}

// serviceEvents records events about services.
type serviceEvents struct{ *events.Recorder }

func (r serviceEvents) Event(service *corev1.Service, kind, reason, message string) {
	r.Recorder.Event(service, kind, reason, message)
}

func (e *Env) serviceAccount() (controllers.Runner, error) {
	return account.NewServiceAccount(account.ServiceAccountConfig{
		Namespaces:      e.Caches.Namespaces,
		ServiceAccounts: e.Caches.ServiceAccounts,
		Writer:          typed.ServiceAccounts(e.Client),
		Workers:         e.Workers,
		Metrics:         e.Metrics,
		Log:             e.Log,
	})
}

func (e *Env) endpointSlice() (controllers.Runner, error) {
	return endpoints.NewSlices(e.endpointSliceConfig())
}

func (e *Env) endpointSliceConfig() endpoints.SliceConfig {
	return endpoints.SliceConfig{
		Services:            e.Caches.Services,
		Pods:                e.Caches.Pods,
		Nodes:               e.Caches.Nodes,
		EndpointSlices:      e.Caches.EndpointSlices,
		ServicesByNamespace: e.Caches.ServicesByNamespace,
		PodsByNamespace:     e.Caches.PodsByNamespace,
		SlicesByService:     e.Caches.SlicesByService,
		MaxEndpoints:        e.config.Tuning.SliceEndpoints,
		BatchPeriod:         e.config.Tuning.SlicesBatch,
		Writer:              typed.EndpointSlices(e.Client),
		Events:              e.Events,
		Workers:             e.Workers,
		Metrics:             e.Metrics,
		Log:                 e.Log,
	}
}

func (e *Env) endpointSliceMirror() (controllers.Runner, error) {
	return endpoints.NewMirror(e.endpointSliceMirrorConfig())
}

func (e *Env) endpointSliceMirrorConfig() endpoints.MirrorConfig {
	return endpoints.MirrorConfig{
		Services:        e.Caches.Services,
		Endpoints:       e.Caches.Endpoints,
		EndpointSlices:  e.Caches.EndpointSlices,
		SlicesByService: e.Caches.SlicesByService,
		MaxEndpoints:    e.config.Tuning.MirroredEndpoints,
		BatchPeriod:     e.config.Tuning.MirrorsBatch,
		Writer:          typed.EndpointSlices(e.Client),
		Events:          e.Events,
		Workers:         e.Workers,
		Metrics:         e.Metrics,
		Log:             e.Log,
	}
}

// legacyEndpoints are for clients that do not know slices.
func (e *Env) legacyEndpoints() (controllers.Runner, error) {
	return endpoints.New(e.legacyEndpointsConfig())
}

func (e *Env) legacyEndpointsConfig() endpoints.Config {
	return endpoints.Config{
		Services:            e.Caches.Services,
		Pods:                e.Caches.Pods,
		Endpoints:           e.Caches.Endpoints,
		ServicesByNamespace: e.Caches.ServicesByNamespace,
		PodsByNamespace:     e.Caches.PodsByNamespace,
		ServiceReader:       typed.Services(e.Client),
		BatchPeriod:         e.config.Tuning.EndpointsBatch,
		Writer:              typed.Endpoints(e.Client),
		Events:              e.Events,
		Workers:             e.Workers,
		Metrics:             e.Metrics,
		Log:                 e.Log,
	}
}

func (e *Env) nodeLifecycle() (controllers.Runner, error) {
	return node.NewLifecycle(e.nodeLifecycleConfig())
}

func (e *Env) nodeLifecycleConfig() node.LifecycleConfig {
	return node.LifecycleConfig{
		Nodes:        e.Caches.Nodes,
		Leases:       e.Caches.NodeLeases,
		Writer:       typed.Nodes(e.Client),
		PodsByNode:   e.Caches.PodsByNode,
		PodWriter:    typed.Pods(e.Client),
		Pods:         e.Caches.Pods,
		Grace:        e.config.Tuning.NodeGrace,
		StartupGrace: e.config.Tuning.NodeStartupGrace,
		Limits:       e.config.Tuning.Evictions,
		Events:       e.Events,
		Workers:      e.Workers,
		Metrics:      e.Metrics,
		Log:          e.Log,
	}
}

func (e *Env) taintEviction() (controllers.Runner, error) {
	return node.NewTaintEviction(node.TaintEvictionConfig{
		Pods:       e.Caches.Pods,
		Nodes:      e.Caches.Nodes,
		PodsByNode: e.Caches.PodsByNode,
		Writer:     typed.Pods(e.Client),
		Events:     e.Events,
		Workers:    e.Workers,
		Metrics:    e.Metrics,
		Log:        e.Log,
	})
}

func (e *Env) ttlAfterFinished() (controllers.Runner, error) {
	return job.NewTTLAfterFinished(job.TTLAfterFinishedConfig{
		Jobs:    e.Caches.Jobs,
		Writer:  typed.Jobs(e.Client),
		Workers: e.Workers,
		Metrics: e.Metrics,
		Log:     e.Log,
	})
}

func (e *Env) podGarbage() (controllers.Runner, error) {
	return node.NewPodGarbage(node.PodGarbageConfig{
		Pods:       e.Caches.Pods,
		Nodes:      e.Caches.Nodes,
		NodeReader: typed.Nodes(e.Client),
		Ended:      e.config.Tuning.EndedPods,
		Writer:     typed.Pods(e.Client),
		Workers:    e.Workers,
		Metrics:    e.Metrics,
		Log:        e.Log,
	})
}

func (e *Env) nodeIPAM() (controllers.Runner, error) {
	return node.NewIPAM(node.IPAMConfig{
		Nodes:    e.Caches.Nodes,
		Writer:   typed.Nodes(e.Client),
		Cluster:  e.config.PodCIDR,
		NodeBits: e.config.nodeBits(),
		Events:   e.Events,
		Metrics:  e.Metrics,
		Log:      e.Log,
	})
}

func (e *Env) replicationController() (controllers.Runner, error) {
	return replicaset.NewReplicationController(replicaset.ReplicationControllerConfig{
		ReplicationControllers: e.Caches.ReplicationControllers,
		Pods:                   e.Caches.Pods,
		PodsByController:       e.Caches.PodsByController,
		Writer:                 typed.ReplicationControllers(e.Client),
		PodWriter:              typed.Pods(e.Client),
		Events:                 e.Events,
		Workers:                e.Workers,
		Metrics:                e.Metrics,
		Log:                    e.Log,
	})
}

func (e *Env) disruption() (controllers.Runner, error) {
	return disruption.New(disruption.Config{
		Budgets:                e.Caches.PodDisruptionBudgets,
		Pods:                   e.Caches.Pods,
		Deployments:            e.Caches.Deployments,
		ReplicaSets:            e.Caches.ReplicaSets,
		ReplicationControllers: e.Caches.ReplicationControllers,
		BudgetsByNamespace:     e.Caches.BudgetsByNamespace,
		PodsByNamespace:        e.Caches.PodsByNamespace,
		Writer:                 typed.PodDisruptionBudgets(e.Client),
		PodWriter:              typed.Pods(e.Client),
		Scales:                 scales{e.Client},
		Events:                 e.Events,
		Workers:                e.Workers,
		Metrics:                e.Metrics,
		Log:                    e.Log,
	})
}

func (e *Env) ephemeralVolume() (controllers.Runner, error) {
	return volume.NewEphemeral(volume.EphemeralConfig{
		Pods:    e.Caches.Pods,
		Claims:  e.Caches.PersistentVolumeClaims,
		Writer:  typed.PersistentVolumeClaims(e.Client),
		Events:  e.Events,
		Workers: e.Workers,
		Metrics: e.Metrics,
		Log:     e.Log,
	})
}

func (e *Env) volumeBinder() (controllers.Runner, error) {
	return volume.NewBinder(volume.BinderConfig{
		Claims:       e.Caches.PersistentVolumeClaims,
		Volumes:      e.Caches.PersistentVolumes,
		Classes:      e.Caches.StorageClasses,
		PodsByClaim:  e.Caches.PodsByClaim,
		ClaimClient:  typed.PersistentVolumeClaims(e.Client),
		VolumeClient: typed.PersistentVolumes(e.Client),
		Resync:       e.config.Tuning.VolumeResync,
		Events:       e.Events,
		Workers:      e.Workers,
		Metrics:      e.Metrics,
		Log:          e.Log,
	})
}

func (e *Env) claimProtection() (controllers.Runner, error) {
	pods := typed.Pods(e.Client)
	return volume.NewClaimProtection(volume.ClaimProtectionConfig{
		Claims:      e.Caches.PersistentVolumeClaims,
		Pods:        e.Caches.Pods,
		PodsByClaim: e.Caches.PodsByClaim,
		ListPods: func(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
			all, _, err := pods.List(ctx, namespace, metav1.ListOptions{})
			return all, err
		},
		Writer:  typed.PersistentVolumeClaims(e.Client),
		Workers: e.Workers,
		Metrics: e.Metrics,
		Log:     e.Log,
	})
}

func (e *Env) volumeProtection() (controllers.Runner, error) {
	return volume.NewProtection(volume.ProtectionConfig{
		Volumes: e.Caches.PersistentVolumes,
		Writer:  typed.PersistentVolumes(e.Client),
		Workers: e.Workers,
		Metrics: e.Metrics,
		Log:     e.Log,
	})
}
