package rbac

import (
	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
)

// componentRoles are those of the programs that make up a cluster.
var componentRoles = []roleTemplate{
	{name: "system:heapster", rules: []rbacv1.PolicyRule{
		rule(read, "core", "events namespaces nodes pods"),
		rule(read, "extensions", "deployments"),
	}},
	{name: "system:node", rules: []rbacv1.PolicyRule{
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "localsubjectaccessreviews subjectaccessreviews"),
		rule(read, "core", "services pods configmaps secrets"),
		rule(read+" create", "core", "nodes"),
		rule("update patch", "core", "nodes/status nodes pods/status"),
		events,
		rule("create delete", "core", "pods"),
		rule("create", "core", "pods/eviction serviceaccounts/token"),
		rule("get", "core", "persistentvolumeclaims persistentvolumes endpoints serviceaccounts"),
		rule(read+" create", certificatesGroup, "certificatesigningrequests"),
		rule("get create update patch delete", coordinationGroup, "leases"),
		rule("get", storageGroup, "volumeattachments"),
		rule("get update patch", "core", "persistentvolumeclaims/status"),
		rule(read, storageGroup, "csidrivers"),
		rule("get create update patch delete", storageGroup, "csinodes"),
		rule(read, "node.k8s.io", "runtimeclasses"),
		rule("get", resourceGroup, "resourceclaims"),
		rule("deletecollection", resourceGroup, "resourceslices"),
	}},
	{name: "system:node-problem-detector", rules: []rbacv1.PolicyRule{
		rule("get", "core", "nodes"),
		rule("patch", "core", "nodes/status"),
		events,
	}},
	{name: "system:node-bootstrapper", rules: []rbacv1.PolicyRule{
		rule(read+" create", certificatesGroup, "certificatesigningrequests"),
	}},
	{name: "system:auth-delegator", rules: []rbacv1.PolicyRule{
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews"),
	}},
	{name: "system:kube-aggregator", rules: []rbacv1.PolicyRule{
		rule(read, "core", "endpoints services"),
	}},
	{name: "system:kube-controller-manager", users: user.ControllerManager, rules: []rbacv1.PolicyRule{
		events,
		rule("create", coordinationGroup, "leases"),
		rule("get update", coordinationGroup, "leases", "kube-controller-manager"),
		rule("create", "core", "secrets serviceaccounts serviceaccounts/token"),
		rule("delete", "core", "secrets"),
		rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
		rule("update", "core", "secrets serviceaccounts"),
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews"),
		rule("list watch", "*", "*"),
	}},
	{name: "system:kube-dns", accounts: "kube-dns", rules: []rbacv1.PolicyRule{
		rule("list watch", "core", "endpoints services"),
	}},
	{name: "system:persistent-volume-provisioner", rules: []rbacv1.PolicyRule{
		rule(read+" create delete", "core", "persistentvolumes"),
		rule(read+" update", "core", "persistentvolumeclaims"),
		rule(read, storageGroup, "storageclasses"),
		rule("watch", "core", "events"),
		events,
	}},
	{name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient", rules: []rbacv1.PolicyRule{
		rule("create", certificatesGroup, "certificatesigningrequests/nodeclient"),
	}},
	{name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rules: []rbacv1.PolicyRule{
		rule("create", certificatesGroup, "certificatesigningrequests/selfnodeclient"),
	}},
	{name: "system:volume-scheduler", users: user.Scheduler, rules: []rbacv1.PolicyRule{
		rule(read+" update patch", "core", "persistentvolumes persistentvolumeclaims"),
		rule(read, storageGroup, "storageclasses"),
	}},
	{name: "system:certificates.k8s.io:legacy-unknown-approver", rules: []rbacv1.PolicyRule{
		rule("approve", certificatesGroup, "signers", "kubernetes.io/legacy-unknown"),
	}},
	{name: "system:certificates.k8s.io:kubelet-serving-approver", rules: []rbacv1.PolicyRule{
		rule("approve", certificatesGroup, "signers", "kubernetes.io/kubelet-serving"),
	}},
	{name: "system:certificates.k8s.io:kube-apiserver-client-approver", rules: []rbacv1.PolicyRule{
		rule("approve", certificatesGroup, "signers", "kubernetes.io/kube-apiserver-client"),
	}},
	{name: "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", rules: []rbacv1.PolicyRule{
		rule("approve", certificatesGroup, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
	}},
	{name: "system:kubelet-api-admin", rules: []rbacv1.PolicyRule{
		rule(read, "core", "nodes"),
		rule("proxy", "core", "nodes"),
		rule("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats nodes/configz nodes/healthz"),
		rule("*", "core", "nodes/pods"),
	}},
	{name: "system:node-proxier", users: "system:kube-proxy", rules: []rbacv1.PolicyRule{
		rule("list watch", "core", "endpoints services"),
		rule(read, "core", "nodes"),
		events,
		rule("list watch", networkingGroup, "servicecidrs"),
		rule("list watch", discoveryGroup, "endpointslices"),
	}},
	{name: "system:kube-scheduler", users: user.Scheduler, rules: []rbacv1.PolicyRule{
		events,
		rule("create", coordinationGroup, "leases"),
		rule(read+" update", coordinationGroup, "leases", "kube-scheduler"),
		rule(readWrite, coordinationGroup, "leasecandidates"),
		rule(read, "core", "nodes replicationcontrollers services persistentvolumeclaims persistentvolumes"),
		rule(read, "core", "namespaces"),
		rule(read+" delete", "core", "pods"),
		rule("create", "core", "bindings pods/binding"),
		rule("update patch", "core", "pods/status"),
		rule(read, "apps extensions", "replicasets"),
		rule(read, "apps", "statefulsets"),
		rule(read, "policy", "poddisruptionbudgets"),
		rule("create", authenticationGroup, "tokenreviews"),
		rule("create", authorizationGroup, "subjectaccessreviews"),
		rule(read, storageGroup, "csinodes volumeattachments csidrivers csistoragecapacities"),
		rule(read, resourceGroup, "deviceclasses resourceslices"),
		rule(read+" update patch", resourceGroup, "resourceclaims resourceclaims/status"),
		rule("update", "core", "pods/finalizers"),
		rule("create delete", resourceGroup, "resourceclaims"),
		rule("update patch", resourceGroup, "resourceclaims/binding"),
	}},
}
