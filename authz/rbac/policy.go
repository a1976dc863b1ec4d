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
	admissionGroup      = "admissionregistration.k8s.io"
	authenticationGroup = "authentication.k8s.io"
	authorizationGroup  = "authorization.k8s.io"
	certificatesGroup   = "certificates.k8s.io"
	coordinationGroup   = "coordination.k8s.io"
	discoveryGroup      = "discovery.k8s.io"
	networkingGroup     = "networking.k8s.io"
	resourceGroup       = "resource.k8s.io"
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
		paths("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
	}},
	{name: "system:basic-user", groups: user.Authenticated, rules: []rbacv1.PolicyRule{
		rule("create", authorizationGroup, "selfsubjectaccessreviews selfsubjectrulesreviews"),
		rule("create", authenticationGroup, "selfsubjectreviews"),
	}},
	{name: "system:public-info-viewer", groups: user.Authenticated + " " + user.Unauthenticated, rules: []rbacv1.PolicyRule{
		paths("get", "/healthz /livez /readyz /version /version/"),
	}},
	{name: "system:monitoring", groups: "system:monitoring", rules: []rbacv1.PolicyRule{
		paths("get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"),
		rule("get", "core", "nodes/metrics"),
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
		rule(readWrite, rbacv1.GroupName, "rolebindings roles"),
	}},
	{name: "system:aggregate-to-edit", label: "edit", rules: []rbacv1.PolicyRule{
		rule(read, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
		rule("impersonate", "core", "serviceaccounts"),
		rule(write, "core", "pods pods/attach pods/exec pods/portforward pods/proxy configmaps"),
		rule(write, "core", "persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets"),
		rule(write, "core", "serviceaccounts services services/proxy"),
		rule("create", "core", "pods/eviction serviceaccounts/token"),
		rule(write, bothEvents, "events"),
		rule(write, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets"),
		rule(write, "apps", "replicasets/scale statefulsets statefulsets/scale"),
		rule(write, "autoscaling", "horizontalpodautoscalers"),
		rule(write, "batch", "cronjobs jobs"),
		rule(write, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses"),
		rule(write, "extensions", "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
		rule(write, "policy", "poddisruptionbudgets"),
		rule(write, networkingGroup, "ingresses networkpolicies"),
		rule(readWrite, coordinationGroup, "leases"),
		rule(write, resourceGroup, "resourceclaims resourceclaimtemplates"),
	}},
	{name: "system:aggregate-to-view", label: "view", rules: []rbacv1.PolicyRule{
		rule(read, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods"),
		rule(read, "core", "replicationcontrollers replicationcontrollers/scale serviceaccounts services"),
		rule(read, "core", "services/status bindings limitranges namespaces/status pods/log pods/status"),
		rule(read, "core", "replicationcontrollers/status resourcequotas resourcequotas/status namespaces"),
		rule(read, bothEvents, "events"),
		rule(read, discoveryGroup, "endpointslices"),
		rule(read, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale"),
		rule(read, "apps", "deployments/status replicasets replicasets/scale replicasets/status statefulsets"),
		rule(read, "apps", "statefulsets/scale statefulsets/status"),
		rule(read, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
		rule(read, "batch", "cronjobs cronjobs/status jobs jobs/status"),
		rule(read, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status"),
		rule(read, "extensions", "ingresses ingresses/status networkpolicies replicasets replicasets/scale"),
		rule(read, "extensions", "replicasets/status replicationcontrollers/scale"),
		rule(read, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
		rule(read, networkingGroup, "ingresses ingresses/status networkpolicies"),
		rule(read, resourceGroup, "resourceclaims resourceclaims/status resourceclaimtemplates"),
	}},
}
