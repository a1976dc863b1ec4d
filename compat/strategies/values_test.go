package strategies

import (
	"slices"
	"strings"
)

// uid belongs to no object.
const uid = "5f5a0ac2-1f3c-4d3e-9a67-0d6a3a6b3a52"

// hints are values that a field of this name may well have, the first of which is right in most kinds.
var hints = map[string][]any{
	"apiGroup": {"apps", "rbac.authorization.k8s.io"}, "apiVersion": {"v1"}, "kind": {"Pod", "Deployment", "User", "ServiceAccount", "Node"}, "namespace": {"walk", "default", "other"},
	"name": {"a", "a.b", "c", "walk"}, "image": {"i", " i ", "i:latest", "i@sha256:x"}, "imagePullPolicy": {"Always"}, "restartPolicy": {"Never", "OnFailure"},
	"mountPath": {"/a", "a", "/a:b", "../a"}, "subPath": {"a", "/a", "../a"}, "subPathExpr": {"$(A)", "/a"}, "path": {"a", "/a", "../a", "a/../b"}, "devicePath": {"/dev/a"},
	"ip": {"192.0.2.7", "::1", "127.0.0.1", "1.2.3.04", "fd00::1"}, "clusterIP": {"None", "10.0.0.7", "192.0.2.7"}, "clusterIPs": {"None", "10.0.0.8"}, "addresses": {"192.0.2.7", "fd00::7", "127.0.0.1"},
	"podIP": {"192.0.2.7"}, "hostIP": {"192.0.2.7"}, "externalIPs": {"192.0.2.8", "127.0.0.1"}, "loadBalancerIP": {"192.0.2.7"}, "nameservers": {"192.0.2.7"}, "ipFamilies": {"IPv4", "IPv6"},
	"loadBalancerSourceRanges": {"192.0.2.0/24", " 192.0.2.0/24"}, "podCIDR": {"192.0.2.0/24"}, "podCIDRs": {"192.0.2.0/24"}, "cidr": {"192.0.2.0/24", "192.0.2.1/24", "fd00::/64"}, "cidrs": {"192.0.2.0/24"},
	"except": {"192.0.2.8/30", "198.51.100.0/24"}, "host": {"a.example.com", "*.example.com", "1.2.3.4"}, "hostname": {"a", "a.b"}, "hosts": {"a.example.com"},
	"port": {80, "http", 0, 65536}, "containerPort": {80, 65536}, "hostPort": {80, 65536}, "nodePort": {30007, 80, 65536}, "targetPort": {80, "http"}, "protocol": {"TCP", "SCTP", "tcp"},
	"key": {"a", "example.com/a", "kubernetes.io/hostname"}, "topologyKey": {"kubernetes.io/hostname", "a"}, "operator": {"Exists", "In", "Gt", "Equal"}, "labelSelector": {map[string]any{}},
	"cpu": {"1"}, "memory": {"1Gi"}, "schedule": {"* * * * *", "@hourly", "TZ=UTC * * * * *", "60 * * * *"}, "timeZone": {"Etc/UTC", "Nowhere/City", "Local"},
	"fieldPath": {"metadata.name", "spec.nodeName", "metadata.labels['a']"}, "resource": {"limits.cpu", "requests.memory", "pods"}, "uid": {uid},
	"sizeLimit": {"1Gi"}, "maxSurge": {1, "50%"}, "maxUnavailable": {1, "50%"}, "expression": {"true", "object.x", "1", "("}, "applyConfiguration": {map[string]any{"expression": "Object{}"}},
	"url": {"https://127.0.0.1:1/x", "http://a", "a"}, "caBundle": {"YQ=="}, "request": {"YQ=="}, "signerName": {"example.com/walk", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"}, "usages": {"client auth"},
	"verbs": {"get", "*"}, "apiGroups": {"", "apps", "*"}, "resources": {"pods", "*", "pods/*"}, "operations": {"CREATE", "*"}, "apiVersions": {"v1", "*"}, "nonResourceURLs": {"/x", "*", "x*"},
	"serverAddressByClientCIDRs": {"0.0.0.0/0"}, "finalizers": {"example.com/a", "kubernetes", "foregroundDeletion"}, "driver": {"a.example.com", "a"}, "provisioner": {"a.example.com"}, "server": {"a"},
	"monitors": {"a"}, "volumeID": {"a"}, "iqn": {"iqn.2001-04.com.example:a"}, "targetPortal": {"192.0.2.7"}, "targetWWNs": {"a"}, "lun": {0}, "storage": {"1Gi"}, "gmsaCredentialSpec": {"a"}, "runAsUserName": {"a"},
	"roleRef": {map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "walk"}}, "type": {"Opaque", "kubernetes.io/tls", "kubernetes.io/service-account-token", "ClusterIP", "NodePort", "Resource", "Localhost"},
	"priorityClassName": {"system-node-critical", "walk", "none"}, "hard": {"1"}, "externalName": {"a.example.com", "1.2.3.4"}, "holderIdentity": {"a"}, "seconds": {5}, "reason": {"A"}, "strategy": {map[string]any{}},
	"group": {"none.example.com"}, "plural": {"nones"}, "singular": {"none"}, "user": {"walk"}, "audiences": {"walk"}, "token": {"x"}, "volumeName": {"v"}, "nodeName": {"walk", "none"}, "serviceName": {"walk"},
}

// plausible returns values that a field may well have.
func (m model) plausible(f field) (all []any) {
	known := hints[f.last()]
	switch {
	case f.Format == "int-or-string":
		all = append(all, known...)
		return append(all, 1)
	case f.Type == "integer" || f.Type == "number":
		for _, v := range known {
			if _, ok := v.(int); ok {
				all = append(all, v)
			}
		}
		return append(all, 1)
	case f.Type == "boolean":
		return []any{true, false}
	case f.Format == "date-time":
		return []any{"2026-01-01T00:00:00Z"}
	case f.Format == "micro-time":
		return []any{"2026-01-01T00:00:00.000000Z"}
	case f.Format == "quantity":
		return []any{"1", "2Gi", "1500m"}
	case f.Format == "byte":
		return []any{"YQ=="}
	case f.Type == "": // of JSON and of what has several types
		return []any{map[string]any{"type": "string"}, "a", 1, true, []any{"a"}}
	case f.Type == "string":
		for _, e := range f.Enum {
			all = append(all, e)
		}
		for _, v := range known {
			if _, ok := v.(string); ok {
				all = append(all, v)
			}
		}
		return append(all, "a")
	}
	return append(known, m.minimal(f.schema, f.last()))
}

var (
	oddStrings = []any{"", "A_b c/", strings.Repeat("x", 300), "a.b/c", "1", "1Gi", "-1", "é", "a=b", "Nope"}
	oddNumbers = []any{0, -1, 2, 101, 70_000, 1<<31 - 1, int64(1) << 40}
)

// odd returns values that a field should not have, or seldom.
func (m model) odd(f field) (all []any) {
	switch {
	case f.Format == "int-or-string":
		return []any{0, -1, 101, 70_000, "", "50%", "101%", "-1%", "x", "A b", nil}
	case f.Type == "integer" || f.Type == "number":
		return append(slices.Clone(oddNumbers), nil)
	case f.Type == "boolean":
		return []any{nil}
	case f.Format == "quantity":
		return []any{"0", "-1", "1m", "0.5", "1e3", "1.5Gi", "010", "x", "", 2, 1.5, nil}
	case f.Format == "date-time" || f.Format == "micro-time":
		return []any{nil, "2096-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z", "0001-01-01T00:00:00Z"}
	case f.Format == "byte":
		return []any{"", "YWE=", nil}
	case f.Type == "string":
		return append(slices.Clone(oddStrings), nil)
	case f.Type == "array":
		one := m.minimal(f.Items, f.last())
		all = []any{[]any{}, []any{one, one}, nil}
		if s := m.resolve(f.Items); s.Type == "string" {
			all = append(all, []any{"a", "b"}, []any{"b", "a", "a"}, []any{""})
		}
		return all
	case f.AdditionalProperties != nil:
		value := m.minimal(f.AdditionalProperties, f.last())
		return []any{map[string]any{}, map[string]any{"a": value, "b": value}, map[string]any{"A b/c": value}, map[string]any{"": value}, map[string]any{"cpu": value}, map[string]any{"example.com/a": value}, nil}
	}
	return []any{map[string]any{}, nil}
}

// annotations holds annotations that stood for fields once, or do, with the values that are tried.
var annotations = map[string][]string{
	"seccomp.security.alpha.kubernetes.io/pod": {"runtime/default", "localhost/a", "unconfined", "a", "localhost/../a"}, "container.seccomp.security.alpha.kubernetes.io/c": {"runtime/default", "localhost/a", "a"},
	"container.apparmor.security.beta.kubernetes.io/c": {"runtime/default", "localhost/a", "unconfined", "a", "localhost/", ""}, "container.apparmor.security.beta.kubernetes.io/none": {"runtime/default"},
	"scheduler.alpha.kubernetes.io/critical-pod": {""}, "scheduler.alpha.kubernetes.io/affinity": {"{}"}, "scheduler.alpha.kubernetes.io/tolerations": {"[]"}, "scheduler.alpha.kubernetes.io/taints": {"[]"},
	"scheduler.alpha.kubernetes.io/preferAvoidPods": {"{}", "x", `{"preferAvoidPods":[{"podSignature":{"podController":{"apiVersion":"v1","kind":"a","name":"a","uid":"a","controller":true}},"reason":"a"}]}`, `{"preferAvoidPods":[{}]}`},
	"pod.alpha.kubernetes.io/init-containers":       {"[]"}, "pod.beta.kubernetes.io/hostname": {"a"}, "security.alpha.kubernetes.io/sysctls": {"kernel.shm_rmid_forced=1"}, "security.alpha.kubernetes.io/unsafe-sysctls": {"a=b"},
	"kubernetes.io/config.mirror": {"x", ""}, "kubernetes.io/config.source": {"file"}, "controller.kubernetes.io/pod-deletion-cost": {"1", "-1", "01", "x", "+1", "99999999999"}, "kubernetes.io/limit-ranger": {"x"},
	"volume.beta.kubernetes.io/storage-class": {"walk", "", "none"}, "volume.alpha.kubernetes.io/storage-class": {"walk"}, "volume.beta.kubernetes.io/mount-options": {"ro", ""}, "volume.beta.kubernetes.io/storage-provisioner": {"a"},
	"storageclass.beta.kubernetes.io/is-default-class": {"true", "x"}, "storageclass.kubernetes.io/is-default-class": {"true", "x"}, "pv.kubernetes.io/bind-completed": {"yes"}, "volume.alpha.kubernetes.io/node-affinity": {"{}", "x"},
	"service.alpha.kubernetes.io/tolerate-unready-endpoints": {"true"}, "service.beta.kubernetes.io/load-balancer-source-ranges": {"192.0.2.0/24", "x", "", "192.0.2.0/24, 10.0.0.0/8"}, "service.kubernetes.io/topology-mode": {"Auto", "Disabled"},
	"service.kubernetes.io/topology-aware-hints": {"Auto", "x"}, "service.beta.kubernetes.io/external-traffic": {"OnlyLocal"}, "service.beta.kubernetes.io/healthcheck-nodeport": {"1"}, "endpoints.kubernetes.io/over-capacity": {"truncated"},
	"autoscaling.alpha.kubernetes.io/metrics": {"x", "[]", `[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":5}}]`, `[{"type":"Pods","pods":{"metricName":"a","targetAverageValue":"1"}}]`}, "autoscaling.alpha.kubernetes.io/conditions": {"x", `[{"type":"a","status":"True"}]`},
	"autoscaling.alpha.kubernetes.io/behavior": {"x", `{"scaleUp":{"stabilizationWindowSeconds":5}}`}, "autoscaling.alpha.kubernetes.io/current-metrics": {"x", `[{"type":"Resource","resource":{"name":"cpu","currentAverageValue":"1"}}]`},
	"deployment.kubernetes.io/revision": {"1", "x"}, "deprecated.daemonset.template.generation": {"5", "x"}, "deprecated.deployment.rollback.rollback-to": {"5"}, "batch.kubernetes.io/job-tracking": {"", "x"}, "batch.kubernetes.io/cronjob-scheduled-timestamp": {"x"},
	"kubernetes.io/ingress.class": {"a", "", "A b"}, "kubernetes.io/enforce-mountable-secrets": {"true", "x"}, "kubernetes.io/service-account.name": {"walk", "none", ""}, "kubernetes.io/service-account.uid": {"x"},
	"api-approved.kubernetes.io": {"https://x.example.com", "x", "unapproved"}, "kubectl.kubernetes.io/last-applied-configuration": {"{}"}, "node.alpha.kubernetes.io/ttl": {"0"}, "a b": {"x"}, "a": {strings.Repeat("x", 1<<18), "é"},
}

// labels are tried like annotations.
var labels = map[string][]string{
	"beta.kubernetes.io/os": {"linux"}, "beta.kubernetes.io/arch": {"a"}, "failure-domain.beta.kubernetes.io/zone": {"a"}, "failure-domain.beta.kubernetes.io/region": {"a"}, "beta.kubernetes.io/instance-type": {"a"},
	"pod-security.kubernetes.io/enforce": {"baseline", "x", ""}, "pod-security.kubernetes.io/enforce-version": {"v1.20", "x", "latest"}, "kubernetes.io/metadata.name": {"a"}, "topology.kubernetes.io/zone": {"a", "A b"}, "kubernetes.io/service-name": {"a"},
	"endpointslice.kubernetes.io/managed-by": {"a"}, "service.kubernetes.io/headless": {""}, "node-role.kubernetes.io/control-plane": {""}, "controller-uid": {"x"}, "batch.kubernetes.io/controller-uid": {"x"}, "job-name": {"x"}, "a b": {"x"}, "a": {"", "a b", strings.Repeat("x", 64)},
	"statefulset.kubernetes.io/pod-name": {"x"}, "ipaddress.kubernetes.io/managed-by": {"x"}, "apps.kubernetes.io/pod-index": {"0"}, "pod-template-hash": {"x"}, "batch.kubernetes.io/job-name": {"x"},
}
