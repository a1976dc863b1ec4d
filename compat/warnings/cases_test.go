package warnings

// example is an object of the kind of a strategy. A silent one is warned of by an update alone.
type example struct {
	strategy, object string
	silent           bool
}

const template = `template: {metadata: {labels: {a: b}, annotations: {scheduler.alpha.kubernetes.io/critical-pod: "", container.apparmor.security.beta.kubernetes.io/c: x}},
  spec: {terminationGracePeriodSeconds: -1, nodeSelector: {beta.kubernetes.io/os: linux}, containers: [{name: c, image: i, env: [{name: A, value: "1"}, {name: A, value: "2"}]}], volumes: [{name: v, configMap: {name: m, items: [{key: a, path: p}, {key: b, path: p/q}]}}]}}`

var cases = []example{
	{"core/pod", `{apiVersion: v1, kind: Pod, metadata: {name: a.b}, spec: {containers: [{name: c, image: i}], volumes: [
		{name: one, configMap: {name: m, items: [{key: a, path: p}, {key: b, path: p/q}, {key: c, path: p}]}},
		{name: two, secret: {secretName: s, items: [{key: a, path: p/}, {key: b, path: p}]}},
		{name: three, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}, {path: p/r, fieldRef: {fieldPath: metadata.uid}}, {path: other, fieldRef: {fieldPath: metadata.uid}}]}},
		{name: four, projected: {sources: [{configMap: {name: m, items: [{key: a, path: p}]}}, {secret: {name: s, items: [{key: a, path: p}]}}, {serviceAccountToken: {path: p/token}},
			{clusterTrustBundle: {name: b, path: p}}, {clusterTrustBundle: {signerName: s.io/a, path: p}}, {downwardAPI: {items: [{path: q, fieldRef: {fieldPath: metadata.name}}]}}]}},
		{name: five, projected: {sources: [{}]}}, {name: six, configMap: {name: m}}]}}`, false},
	{"core/pod", `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i, ports: [{containerPort: 80}, {containerPort: 80}]}], nodeSelector: {a: b},
		hostAliases: [{ip: 1.2.3.4}, {ip: 1.2.3.4}, {ip: "::ffff:1.2.3.4"}], imagePullSecrets: [{}, {}], dnsConfig: {nameservers: ["1.2.3.04"]}}}`, false},
	{"core/pod/status", `{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {podIPs: [{ip: 1.2.3.04}, {ip: "FD00::1"}], hostIPs: [{ip: "::ffff:1.2.3.4"}]}}`, false},
	{"core/podtemplate", `{apiVersion: v1, kind: PodTemplate, metadata: {name: a.b}, ` + template + `}`, false},
	{"core/replicationcontroller", `{apiVersion: v1, kind: ReplicationController, metadata: {name: a.b}, spec: {` + template + `}}`, false},
	{"apps/deployment", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a.b}, spec: {` + template + `}}`, false},
	{"apps/replicaset", `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a.b}, spec: {` + template + `}}`, false},
	{"apps/daemonset", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a.b}, spec: {` + template + `}}`, false},
	{"apps/statefulset", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a.b}, spec: {revisionHistoryLimit: -1, volumeClaimTemplates: [{spec: {resources: {requests: {storage: 100m}}}}], ` + template + `}}`, false},
	{"batch/job", `{apiVersion: batch/v1, kind: Job, metadata: {name: a.b}, spec: {completionMode: Indexed, completions: 100001, parallelism: 10001, ` + template + `}}`, false},
	{"batch/cronjob", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a.b}, spec: {schedule: "TZ=UTC * * * * *", jobTemplate: {spec: {` + template + `}}}}`, false},

	{"core/service", `{apiVersion: v1, kind: Service, metadata: {name: a, annotations: {service.kubernetes.io/topology-aware-hints: auto}}, spec: {clusterIP: 10.0.0.01, clusterIPs: [10.0.0.01, "FD00::1"],
		externalIPs: [1.2.3.04, 1.2.3.4], loadBalancerIP: "::ffff:1.2.3.4", loadBalancerSourceRanges: [1.2.3.4/8, "10.0.0.0/08", "FD00::/8"], externalName: x, trafficDistribution: PreferClose}}`, false},
	{"core/service", `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None, clusterIPs: [None], loadBalancerIP: 1.2.3.4, externalIPs: [1.2.3.4], sessionAffinity: ClientIP}}`, false},
	{"core/service", `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ExternalName, externalName: x, externalIPs: [1.2.3.4]}}`, false},
	{"core/service", `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None, clusterIPs: [None]}}`, true},
	{"core/service/status", `{apiVersion: v1, kind: Service, metadata: {name: a}, status: {loadBalancer: {ingress: [{hostname: x}, {ip: 1.2.3.04}]}}}`, false},
	{"core/endpoint", `{apiVersion: v1, kind: Endpoints, metadata: {name: a}, subsets: [{addresses: [{ip: 1.2.3.04}, {ip: 1.2.3.4}], notReadyAddresses: [{ip: "FD00::1"}]}]}`, false},
	{"core/endpoint", `{apiVersion: v1, kind: Endpoints, metadata: {name: a, labels: {endpoints.kubernetes.io/managed-by: endpoint-controller}}, subsets: [{addresses: [{ip: 1.2.3.04}]}]}`, true},
	{"core/node", `{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {externalID: x, configSource: {configMap: {namespace: a, name: b, kubeletConfigKey: c}}, podCIDR: 10.0.0.0/08, podCIDRs: [10.0.0.0/08, "FD00::/64"]}}`, false},
	{"core/persistentvolume", `{apiVersion: v1, kind: PersistentVolume, metadata: {name: a, annotations: {volume.beta.kubernetes.io/storage-class: x, volume.beta.kubernetes.io/mount-options: x}},
		spec: {persistentVolumeReclaimPolicy: Recycle, rbd: {image: x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: beta.kubernetes.io/arch, operator: Exists}]}]}}}}`, false},
	{"core/persistentvolume", `{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {cephfs: {}, photonPersistentDisk: {pdID: x}, scaleIO: {system: x}, storageos: {}, glusterfs: {path: x}}}`, false},
	{"core/persistentvolumeclaim", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, annotations: {volume.beta.kubernetes.io/storage-class: x}}, spec: {resources: {requests: {storage: 100m}, limits: {storage: 200m}}}}`, false},
	{"core/resourcequota", `{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {cpu: 2, limits.cpu: 1, requests.memory: 2Gi, limits.memory: 1Gi, requests.ephemeral-storage: 2, limits.ephemeral-storage: 1}}}`, false},
	{"core/secret", `{apiVersion: v1, kind: Secret, metadata: {name: a}, type: kubernetes.io/tls, data: {tls.crt: eA==, tls.key: eA==}}`, false},
	{"core/secret", `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {tls.crt: eA==, tls.key: eA==}}`, true},
	{"core/serviceaccount", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}}`, false},

	{"discovery/endpointslice", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, endpoints: [{addresses: [1.2.3.04]}, {addresses: [1.2.3.4]}]}`, false},
	{"discovery/endpointslice", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, labels: {endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}, addressType: FQDN, endpoints: [{addresses: [x.y]}]}`, false},
	{"networking/ingress", `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, annotations: {kubernetes.io/ingress.class: x}}}`, false},
	{"networking/ingress/status", `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, status: {loadBalancer: {ingress: [{hostname: x}, {ip: 1.2.3.04}]}}}`, false},
	{"networking/networkpolicy", `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: 1.2.3.4/8, except: [1.2.3.4/16]}}]}],
		egress: [{to: [{ipBlock: {cidr: "FD00::/8", except: ["::ffff:1.2.3.0/120"]}}]}]}}`, false},
	{"node/runtimeclass", `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: a}, handler: h, scheduling: {nodeSelector: {beta.kubernetes.io/os: linux, a: b}}}`, false},
	{"storage/csidriver", `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: a}, spec: {tokenRequests: [{audience: a}]}}`, false},
	{"storage/csistoragecapacity", `{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: s, nodeTopology: {matchLabels: {beta.kubernetes.io/os: linux}, matchExpressions: [{key: beta.kubernetes.io/arch, operator: Exists}]}}`, false},
	{"storage/storageclass", `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: p, allowedTopologies: [{matchLabelExpressions: [{key: a, values: [b]}, {key: beta.kubernetes.io/arch, values: [b]}]}]}`, false},

	{"admissionregistration/mutatingadmissionpolicy", `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: a.static.k8s.io}}`, false},
	{"admissionregistration/mutatingadmissionpolicybinding", `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: a.static.k8s.io}}`, false},
	{"admissionregistration/mutatingwebhookconfiguration", `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a.static.k8s.io}}`, false},
	{"admissionregistration/validatingadmissionpolicy", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: a.static.k8s.io}}`, false},
	{"admissionregistration/validatingadmissionpolicybinding", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a.static.k8s.io}}`, false},
	{"admissionregistration/validatingwebhookconfiguration", `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a.static.k8s.io}}`, false},
}
