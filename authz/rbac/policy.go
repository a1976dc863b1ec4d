package rbac

import (
	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The verbs that go together.
const (
	read      = "get list watch"
	write     = "create update patch delete deletecollection"
	readWrite = read + " " + write
)

// API groups with long names.
const (
	authenticationGroup = "authentication.k8s.io"
	authorizationGroup  = "authorization.k8s.io"
	certificatesGroup   = "certificates.k8s.io"
	coordinationGroup   = "coordination.k8s.io"
	discoveryGroup      = "discovery.k8s.io"
	networkingGroup     = "networking.k8s.io"
	storageGroup        = "storage.k8s.io"
)

const bothEvents = "core events.k8s.io"

// events lets a component record what it did.
var events = rule("create update patch", bothEvents, "events")

// generalRoles are what everybody may and what nobody may not.
var generalRoles = []roleTemplate{
	{name: "cluster-admin", groups: user.Masters, rules: []rbacv1.PolicyRule{
		rule("*", "*", "*"),
		paths("*", "*"),
	}},
	{name: "system:discovery", groups: user.Authenticated, rules: []rbacv1.PolicyRule{
		paths("get", "/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*"),
	}},
	{name: "system:basic-user", groups: user.Authenticated, rules: []rbacv1.PolicyRule{
		rule("create", authorizationGroup, "selfsubjectaccessreviews selfsubjectrulesreviews"),
		rule("create", authenticationGroup, "selfsubjectreviews"),
	}},
	{name: "system:public-info-viewer", groups: user.Authenticated + " " + user.Unauthenticated, rules: []rbacv1.PolicyRule{
		paths("get", "/livez /readyz /healthz /version /version/"),
	}},
	{name: "system:monitoring", groups: "system:monitoring", rules: []rbacv1.PolicyRule{
		paths("get", "/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/*"),
		rule("get", "core", "nodes/metrics"),
	}},
	{name: "system:auth-delegator", rules: []rbacv1.PolicyRule{
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews"),
	}},
	{name: "system:service-account-issuer-discovery", groups: user.ServiceAccounts, rules: []rbacv1.PolicyRule{
		paths("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
	}},
}

// userFacingRoles are admin, edit and view of a namespace, and the parts they
// are made of.
var userFacingRoles = []roleTemplate{
	{name: "admin", selects: "admin"},
	{name: "edit", selects: "edit", label: "admin"},
	{name: "view", selects: "view", label: "edit"},
	{name: "system:aggregate-to-admin", label: "admin", rules: []rbacv1.PolicyRule{
		rule("create", authorizationGroup, "localsubjectaccessreviews"),
		rule(readWrite, rbacv1.GroupName, "roles rolebindings"),
	}},
	{name: "system:aggregate-to-edit", label: "edit", rules: []rbacv1.PolicyRule{
		rule(read, "core", "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
		rule("impersonate", "core", "serviceaccounts"),
		rule(write, "core", "pods pods/attach pods/proxy pods/exec pods/portforward"),
		rule("create", "core", "pods/eviction"),
		rule(write, "core", "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy"),
		rule(write, "core", "persistentvolumeclaims configmaps secrets"),
		rule("create", "core", "serviceaccounts/token"),
		rule(write, bothEvents, "events"),
		rule(write, "apps", "statefulsets statefulsets/scale daemonsets replicasets replicasets/scale"),
		rule(write, "apps", "deployments deployments/scale deployments/rollback"),
		rule(write, "autoscaling", "horizontalpodautoscalers"),
		rule(write, "batch", "jobs cronjobs"),
		rule(write, "policy", "poddisruptionbudgets"),
		rule(write, networkingGroup, "networkpolicies ingresses"),
		rule(readWrite, coordinationGroup, "leases"),
	}},
	{name: "system:aggregate-to-view", label: "view", rules: []rbacv1.PolicyRule{
		rule(read, "core", "pods pods/status pods/log bindings configmaps serviceaccounts namespaces namespaces/status"),
		rule(read, "core", "replicationcontrollers replicationcontrollers/scale replicationcontrollers/status"),
		rule(read, "core", "services services/status endpoints persistentvolumeclaims persistentvolumeclaims/status"),
		rule(read, "core", "limitranges resourcequotas resourcequotas/status"),
		rule(read, bothEvents, "events"),
		rule(read, discoveryGroup, "endpointslices"),
		rule(read, "apps", "controllerrevisions daemonsets daemonsets/status"),
		rule(read, "apps", "statefulsets statefulsets/status statefulsets/scale"),
		rule(read, "apps", "deployments deployments/status deployments/scale"),
		rule(read, "apps", "replicasets replicasets/status replicasets/scale"),
		rule(read, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
		rule(read, "batch", "jobs jobs/status cronjobs cronjobs/status"),
		rule(read, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
		rule(read, networkingGroup, "networkpolicies ingresses ingresses/status"),
	}},
}

// componentRoles are those of the programs that make up a cluster.
var componentRoles = []roleTemplate{
	{name: "system:node", groups: user.Nodes, rules: []rbacv1.PolicyRule{
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews localsubjectaccessreviews"),
		rule(read, "core", "services"),
		rule("create get list watch update patch", "core", "nodes"),
		rule("update patch", "core", "nodes/status pods/status"),
		events,
		rule(read+" create delete", "core", "pods"),
		rule("create", "core", "pods/eviction serviceaccounts/token"),
		rule(read, "core", "secrets configmaps"),
		rule("get", "core", "persistentvolumeclaims persistentvolumes endpoints serviceaccounts"),
		rule("get update patch", "core", "persistentvolumeclaims/status"),
		rule("create "+read, certificatesGroup, "certificatesigningrequests"),
		rule("get create update patch delete", coordinationGroup, "leases"),
		rule("get", storageGroup, "volumeattachments"),
		rule(read, storageGroup, "csidrivers"),
		rule("get create update patch delete", storageGroup, "csinodes"),
		rule(read, "node.k8s.io", "runtimeclasses"),
	}},
	{name: "system:node-proxier", users: "system:kube-proxy", rules: []rbacv1.PolicyRule{
		rule("list watch", "core", "services endpoints"),
		rule(read, "core", "nodes"),
		events,
		rule("list watch", networkingGroup, "servicecidrs"),
		rule("list watch", discoveryGroup, "endpointslices"),
	}},
	{name: "system:kube-scheduler", users: user.Scheduler, rules: []rbacv1.PolicyRule{
		events,
		rule("create", coordinationGroup, "leases"),
		rule("get update list watch", coordinationGroup, "leases", "kube-scheduler"),
		rule(read, "core", "nodes namespaces services replicationcontrollers persistentvolumeclaims persistentvolumes"),
		rule(read+" delete", "core", "pods"),
		rule("create", "core", "pods/binding bindings"),
		rule("patch update", "core", "pods/status"),
		rule(read, "apps", "replicasets statefulsets"),
		rule(read, "policy", "poddisruptionbudgets"),
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews"),
		rule(read, storageGroup, "csinodes csidrivers csistoragecapacities storageclasses volumeattachments"),
	}},
	{name: "system:kube-controller-manager", users: user.ControllerManager, rules: []rbacv1.PolicyRule{
		events,
		rule("create", coordinationGroup, "leases"),
		rule("get update", coordinationGroup, "leases", "kube-controller-manager"),
		rule("create", "core", "secrets serviceaccounts serviceaccounts/token"),
		rule("delete", "core", "secrets"),
		rule("get", "core", "namespaces secrets serviceaccounts configmaps"),
		rule("update", "core", "secrets serviceaccounts"),
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews"),
		rule("list watch", "*", "*"), // what informers need
	}},
}

// controllerRoles are named by the service account of each controller.
var controllerRoles = []roleTemplate{
	{name: "deployment-controller", rules: []rbacv1.PolicyRule{
		rule(read+" update", "apps", "deployments"),
		rule("update", "apps", "deployments/status deployments/finalizers"),
		rule(read+" create update patch delete", "apps", "replicasets"),
		rule(read+" update", "core", "pods"),
		events,
	}},
	{name: "replicaset-controller", rules: []rbacv1.PolicyRule{
		rule(read+" update", "apps", "replicasets"),
		rule("update", "apps", "replicasets/status replicasets/finalizers"),
		rule("list watch patch create delete", "core", "pods"),
		events,
	}},
	{name: "statefulset-controller", rules: []rbacv1.PolicyRule{
		rule(read, "apps", "statefulsets"),
		rule("update", "apps", "statefulsets/status statefulsets/finalizers"),
		rule(read+" create delete update patch", "core", "pods"),
		rule("update", "core", "pods/finalizers"),
		rule(read+" create delete update patch", "apps", "controllerrevisions"),
		rule(read+" create update delete", "core", "persistentvolumeclaims"),
		events,
	}},
	{name: "daemon-set-controller", rules: []rbacv1.PolicyRule{
		rule(read, "apps", "daemonsets"),
		rule("update", "apps", "daemonsets/status daemonsets/finalizers"),
		rule("list watch", "core", "nodes"),
		rule("list watch create delete patch", "core", "pods"),
		rule("create", "core", "pods/binding"),
		rule(read+" create delete update patch", "apps", "controllerrevisions"),
		events,
	}},
	{name: "job-controller", rules: []rbacv1.PolicyRule{
		rule(read+" update patch", "batch", "jobs"),
		rule("update", "batch", "jobs/status jobs/finalizers"),
		rule("list watch create delete patch", "core", "pods"),
		events,
	}},
	{name: "cronjob-controller", rules: []rbacv1.PolicyRule{
		rule(read+" update", "batch", "cronjobs"),
		rule("update", "batch", "cronjobs/status cronjobs/finalizers"),
		rule(read+" create update delete patch", "batch", "jobs"),
		rule("list watch delete", "core", "pods"),
		events,
	}},
	{name: "clusterrole-aggregation-controller", rules: []rbacv1.PolicyRule{
		rule("escalate get list patch update watch", rbacv1.GroupName, "clusterroles"),
	}},
	{name: "endpointslice-controller", rules: []rbacv1.PolicyRule{
		rule(read, "core", "services pods nodes"),
		rule("update", "core", "services/finalizers"),
		rule(read+" create update delete", discoveryGroup, "endpointslices"),
		events,
	}},
	{name: "generic-garbage-collector", rules: []rbacv1.PolicyRule{
		rule(read+" patch update delete", "*", "*"),
		events,
	}},
	{name: "namespace-controller", rules: []rbacv1.PolicyRule{
		rule(read+" delete", "core", "namespaces"),
		rule("update", "core", "namespaces/finalize namespaces/status"),
		rule(read+" delete deletecollection", "*", "*"),
	}},
	{name: "root-ca-cert-publisher", rules: []rbacv1.PolicyRule{
		rule("create update", "core", "configmaps"),
		events,
	}},
	{name: "service-account-controller", rules: []rbacv1.PolicyRule{
		rule("create", "core", "serviceaccounts"),
		events,
	}},
	{name: "node-controller", rules: []rbacv1.PolicyRule{
		rule(read+" update delete patch", "core", "nodes"),
		rule("patch update", "core", "nodes/status pods/status"),
		rule(read+" delete", "core", "pods"),
		events,
	}},
	{name: "pod-garbage-collector", rules: []rbacv1.PolicyRule{
		rule("list watch delete", "core", "pods"),
		rule(read, "core", "nodes"),
		rule("patch", "core", "pods/status"),
	}},
	{name: "ttl-after-finished-controller", rules: []rbacv1.PolicyRule{
		rule(read+" delete", "batch", "jobs"),
		events,
	}},
}
