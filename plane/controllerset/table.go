package controllerset

import (
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
)

// Names of the controllers that need more than caches and a client.
const (
	rootCAPublisher    = "root-ca-certificate-publisher-controller"
	tokenController    = "serviceaccount-token-controller"
	nodeIPAMController = "node-ipam-controller"
)

// makers make the controllers, by the names of kube-controller-manager.
var makers = map[string]func(*Env) (controllers.Runner, error){
	"clusterrole-aggregation-controller":       (*Env).clusterRole,
	"deployment-controller":                    (*Env).deployment,
	"disruption-controller":                    (*Env).disruption,
	"endpoints-controller":                     (*Env).legacyEndpoints,
	"endpointslice-controller":                 (*Env).endpointSlice,
	"endpointslice-mirroring-controller":       (*Env).endpointSliceMirror,
	"garbage-collector-controller":             (*Env).garbageCollector,
	"job-controller":                           (*Env).job,
	"namespace-controller":                     (*Env).namespace,
	"node-ipam-controller":                     (*Env).nodeIPAM,
	"node-lifecycle-controller":                (*Env).nodeLifecycle,
	"pod-garbage-collector-controller":         (*Env).podGarbage,
	"replicaset-controller":                    (*Env).replicaSet,
	"replicationcontroller-controller":         (*Env).replicationController,
	"resourcequota-controller":                 (*Env).resourceQuota,
	"root-ca-certificate-publisher-controller": (*Env).rootCA,
	"serviceaccount-controller":                (*Env).serviceAccount,
	"serviceaccount-token-controller":          (*Env).token,
	"taint-eviction-controller":                (*Env).taintEviction,
	"ttl-after-finished-controller":            (*Env).ttlAfterFinished,
}

// table returns the built-in controllers, in the order of their names. New reports one
// without a maker.
func table() []Controller {
	var rows []Controller
	for _, known := range controllers.KnownControllers() {
		rows = append(rows, Controller{Known: known, New: makers[known.Name]})
	}
	return rows
}

func (e *Env) deployment() (controllers.Runner, error) {
	return controllers.NewDeployment(controllers.DeploymentConfig{
		Deployments:             e.Caches.Deployments,
		ReplicaSets:             e.Caches.ReplicaSets,
		Pods:                    e.Caches.Pods,
		ReplicaSetsByController: e.Caches.ReplicaSetsByController,
		PodsByController:        e.Caches.PodsByController,
		Writer:                  typed.Deployments(e.Client),
		ReplicaSetWriter:        typed.ReplicaSets(e.Client),
		Events:                  e.Events,
		Workers:                 e.Workers,
		Log:                     e.Log,
	})
}

func (e *Env) replicaSet() (controllers.Runner, error) {
	return controllers.NewReplicaSet(controllers.ReplicaSetConfig{
		ReplicaSets:             e.Caches.ReplicaSets,
		Pods:                    e.Caches.Pods,
		ReplicaSetsByController: e.Caches.ReplicaSetsByController,
		PodsByController:        e.Caches.PodsByController,
		Status:                  typed.ReplicaSets(e.Client),
		Writer:                  typed.Pods(e.Client),
		Events:                  e.Events,
		Workers:                 e.Workers,
		Log:                     e.Log,
	})
}

func (e *Env) job() (controllers.Runner, error) {
	return controllers.NewJob(controllers.JobConfig{
		Jobs:             e.Caches.Jobs,
		Pods:             e.Caches.Pods,
		PodsByController: e.Caches.PodsByController,
		Status:           typed.Jobs(e.Client),
		Writer:           typed.Pods(e.Client),
		Events:           e.Events,
		Workers:          e.Workers,
		Log:              e.Log,
	})
}

// garbageCollector follows owner references between objects of all kinds that have a
// cache.
func (e *Env) garbageCollector() (controllers.Runner, error) {
	var kinds []controllers.GarbageKind
	for _, k := range e.Caches.Kinds {
		kinds = append(kinds, k.Garbage(e.Client))
	}
	return controllers.NewGarbage(controllers.GarbageConfig{Kinds: kinds, Workers: e.Workers, Log: e.Log})
}

// resourceQuota counts the objects of all kinds in namespaces that have a cache.
func (e *Env) resourceQuota() (controllers.Runner, error) {
	var kinds []controllers.QuotaKind
	for _, k := range e.Caches.Kinds {
		if k.Namespaced {
			kinds = append(kinds, k.Quota())
		}
	}
	return controllers.NewResourceQuota(controllers.ResourceQuotaConfig{
		ResourceQuotas: e.Caches.ResourceQuotas,
		Kinds:          kinds,
		Status:         typed.ResourceQuotas(e.Client),
		Workers:        e.Workers,
		Log:            e.Log,
	})
}

// clusterRole writes the rules of aggregated roles, such as view, into them.
func (e *Env) clusterRole() (controllers.Runner, error) {
	return controllers.NewClusterRole(controllers.ClusterRoleConfig{
		ClusterRoles: e.Caches.ClusterRoles,
		Writer:       typed.ClusterRoles(e.Client),
		Log:          e.Log,
	})
}

func (e *Env) token() (controllers.Runner, error) {
	return controllers.NewToken(controllers.TokenConfig{
		ServiceAccounts:    e.Caches.ServiceAccounts,
		Secrets:            e.Caches.Secrets,
		SecretsByNamespace: e.Caches.SecretsByNamespace,
		Accounts:           typed.ServiceAccounts(e.Client),
		Writer:             typed.Secrets(e.Client),
		Sign:               e.config.SignToken,
		CA:                 e.config.RootCA,
		Workers:            e.Workers,
		Log:                e.Log,
	})
}

func (e *Env) rootCA() (controllers.Runner, error) {
	return controllers.NewRootCA(controllers.RootCAConfig{
		Namespaces: e.Caches.Namespaces,
		ConfigMaps: e.Caches.ConfigMaps,
		Writer:     typed.ConfigMaps(e.Client),
		CA:         e.config.RootCA,
		Log:        e.Log,
	})
}

func (e *Env) namespace() (controllers.Runner, error) {
	return controllers.NewNamespace(controllers.NamespaceConfig{
		Namespaces: e.Caches.Namespaces,
		Contents:   e.contents,
		Writer:     finalizer{e.Client},
		Status:     typed.Namespaces(e.Client),
		Workers:    e.Workers,
		Log:        e.Log,
	})
}

func (e *Env) serviceAccount() (controllers.Runner, error) {
	return controllers.NewServiceAccount(controllers.ServiceAccountConfig{
		Namespaces:      e.Caches.Namespaces,
		ServiceAccounts: e.Caches.ServiceAccounts,
		Writer:          typed.ServiceAccounts(e.Client),
		Log:             e.Log,
	})
}

func (e *Env) endpointSlice() (controllers.Runner, error) {
	return controllers.NewEndpointSlice(e.endpointSliceConfig())
}

func (e *Env) endpointSliceConfig() controllers.EndpointSliceConfig {
	return controllers.EndpointSliceConfig{
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
		Log:                 e.Log,
	}
}

func (e *Env) endpointSliceMirror() (controllers.Runner, error) {
	return controllers.NewEndpointSliceMirror(e.endpointSliceMirrorConfig())
}

func (e *Env) endpointSliceMirrorConfig() controllers.EndpointSliceMirrorConfig {
	return controllers.EndpointSliceMirrorConfig{
		Services:        e.Caches.Services,
		Endpoints:       e.Caches.Endpoints,
		EndpointSlices:  e.Caches.EndpointSlices,
		SlicesByService: e.Caches.SlicesByService,
		MaxEndpoints:    e.config.Tuning.MirroredEndpoints,
		BatchPeriod:     e.config.Tuning.MirrorsBatch,
		Writer:          typed.EndpointSlices(e.Client),
		Events:          e.Events,
		Workers:         e.Workers,
		Log:             e.Log,
	}
}

// legacyEndpoints are for clients that do not know slices.
func (e *Env) legacyEndpoints() (controllers.Runner, error) {
	return controllers.NewEndpoints(e.legacyEndpointsConfig())
}

func (e *Env) legacyEndpointsConfig() controllers.EndpointsConfig {
	return controllers.EndpointsConfig{
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
		Log:                 e.Log,
	}
}

func (e *Env) nodeLifecycle() (controllers.Runner, error) {
	return controllers.NewNodeLifecycle(e.nodeLifecycleConfig())
}

func (e *Env) nodeLifecycleConfig() controllers.NodeLifecycleConfig {
	return controllers.NodeLifecycleConfig{
		Nodes:        e.Caches.Nodes,
		Leases:       e.Caches.NodeLeases,
		Writer:       typed.Nodes(e.Client),
		Pods:         e.Caches.PodsByNode,
		PodStatus:    typed.Pods(e.Client),
		PodCache:     e.Caches.Pods,
		Grace:        e.config.Tuning.NodeGrace,
		StartupGrace: e.config.Tuning.NodeStartupGrace,
		Limits:       e.config.Tuning.Evictions,
		Events:       e.Events,
		Log:          e.Log,
	}
}

func (e *Env) taintEviction() (controllers.Runner, error) {
	return controllers.NewTaintEviction(controllers.TaintEvictionConfig{
		Pods:       e.Caches.Pods,
		Nodes:      e.Caches.Nodes,
		PodsByNode: e.Caches.PodsByNode,
		Writer:     typed.Pods(e.Client),
		Events:     e.Events,
		Log:        e.Log,
	})
}

func (e *Env) ttlAfterFinished() (controllers.Runner, error) {
	return controllers.NewTTLAfterFinished(controllers.TTLAfterFinishedConfig{
		Jobs:    e.Caches.Jobs,
		Writer:  typed.Jobs(e.Client),
		Workers: e.Workers,
		Log:     e.Log,
	})
}

func (e *Env) podGarbage() (controllers.Runner, error) {
	return controllers.NewPodGarbage(controllers.PodGarbageConfig{
		Pods:       e.Caches.Pods,
		Nodes:      e.Caches.Nodes,
		NodeReader: typed.Nodes(e.Client),
		Ended:      e.config.Tuning.EndedPods,
		Writer:     typed.Pods(e.Client),
		Log:        e.Log,
	})
}

func (e *Env) nodeIPAM() (controllers.Runner, error) {
	return controllers.NewNodeIPAM(controllers.NodeIPAMConfig{
		Nodes:    e.Caches.Nodes,
		Writer:   typed.Nodes(e.Client),
		Cluster:  e.config.PodCIDR,
		NodeBits: e.config.nodeBits(),
		Events:   e.Events,
		Log:      e.Log,
	})
}

func (e *Env) replicationController() (controllers.Runner, error) {
	return controllers.NewReplicationController(controllers.ReplicationControllerConfig{
		ReplicationControllers: e.Caches.ReplicationControllers,
		Pods:                   e.Caches.Pods,
		PodsByController:       e.Caches.PodsByController,
		Status:                 typed.ReplicationControllers(e.Client),
		Writer:                 typed.Pods(e.Client),
		Events:                 e.Events,
		Workers:                e.Workers,
		Log:                    e.Log,
	})
}

func (e *Env) disruption() (controllers.Runner, error) {
	return controllers.NewDisruption(controllers.DisruptionConfig{
		Budgets:                e.Caches.PodDisruptionBudgets,
		Pods:                   e.Caches.Pods,
		Deployments:            e.Caches.Deployments,
		ReplicaSets:            e.Caches.ReplicaSets,
		ReplicationControllers: e.Caches.ReplicationControllers,
		BudgetsByNamespace:     e.Caches.BudgetsByNamespace,
		PodsByNamespace:        e.Caches.PodsByNamespace,
		Status:                 typed.PodDisruptionBudgets(e.Client),
		PodStatus:              typed.Pods(e.Client),
		Scales:                 scales{e.Client},
		Events:                 e.Events,
		Log:                    e.Log,
	})
}
