package pair

import "sigs.k8s.io/yaml"

// Namespace has the objects.
const Namespace = "walk"

// An Object can be created on both servers at Path, with the name "walk" unless it has another one. Body is YAML
// without apiVersion, kind and metadata.
type Object struct{ Path, Name, Body string }

// Objects has one of every kind that can be created, in an order in which they can be.
var Objects = []Object{
	{"/api/v1/namespaces", "walk", `{}`},
	{"/api/v1/nodes", "", `{}`},
	{"/api/v1/persistentvolumes", "", `{spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}}`},
	{core + "configmaps", "", `{data: {a: b}}`},
	{core + "endpoints", "", `{subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{port: 80}]}]}`},
	{core + "events", "", `{involvedObject: {namespace: walk, kind: Pod, name: walk}, reason: Walks, message: it walks, type: Normal}`},
	{core + "limitranges", "", `{spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 2Gi}}]}}`},
	{core + "persistentvolumeclaims", "", `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`},
	{core + "serviceaccounts", "", `{}`},
	{core + "pods", "", `{spec: {schedulerName: none, automountServiceAccountToken: false, serviceAccountName: walk, containers: [{name: c, image: i}]}}`},
	{core + "podtemplates", "", `{template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`},
	{core + "replicationcontrollers", "", `{spec: {replicas: 1, selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`},
	{core + "resourcequotas", "", `{spec: {hard: {secrets: "1000"}}}`},
	{core + "secrets", "", `{data: {a: Yg==}}`},
	{core + "services", "", `{spec: {clusterIP: None, ports: [{port: 80}]}}`},
	{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "", `{spec: {matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nones]}]}, failurePolicy: Ignore, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]}}`},
	{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", "", `{spec: {policyName: none}}`},
	{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", "", `{webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/x"}, rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nones]}]}]}`},
	{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "", `{spec: {matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nones]}]}, validations: [{expression: "true"}]}}`},
	{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "", `{spec: {policyName: none, validationActions: [Deny]}}`},
	{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "", `{webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/x"}, rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nones]}]}]}`},
	{"/apis/apiregistration.k8s.io/v1/apiservices", "v1.walk.example.com", `{spec: {group: walk.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: walk, name: none}}}`},
	{apps + "controllerrevisions", "", `{revision: 1, data: {a: b}}`},
	{apps + "daemonsets", "", `{spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`},
	{apps + "deployments", "", `{spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`},
	{apps + "replicasets", "", `{spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`},
	{apps + "statefulsets", "", `{spec: {serviceName: walk, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`},
	{"/apis/autoscaling/v1/namespaces/walk/horizontalpodautoscalers", "", `{spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: walk}}}`},
	{"/apis/autoscaling/v2/namespaces/walk/horizontalpodautoscalers", "walk-2", `{spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: walk}}}`},
	{"/apis/batch/v1/namespaces/walk/cronjobs", "", `{spec: {schedule: "* * * * *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`},
	{"/apis/batch/v1/namespaces/walk/jobs", "", `{spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`},
	{"/apis/certificates.k8s.io/v1/certificatesigningrequests", "", `{spec: {signerName: example.com/walk, usages: [client auth], request: "` + signingRequest + `"}}`},
	{"/apis/coordination.k8s.io/v1/namespaces/walk/leases", "", `{spec: {holderIdentity: walk}}`},
	{"/apis/discovery.k8s.io/v1/namespaces/walk/endpointslices", "", `{addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}], ports: [{port: 80}]}`},
	{"/apis/events.k8s.io/v1/namespaces/walk/events", "walk-2", `{eventTime: "2026-01-01T00:00:00.000000Z", regarding: {namespace: walk, kind: Pod, name: walk}, reason: Walks, action: Walk, note: it walks, type: Normal, reportingController: example.com/walk, reportingInstance: walk}`},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "", `{spec: {matchingPrecedence: 9000, priorityLevelConfiguration: {name: global-default}}}`},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "", `{spec: {type: Limited, limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}}}`},
	{"/apis/networking.k8s.io/v1/ingressclasses", "", `{spec: {controller: example.com/walk}}`},
	{"/apis/networking.k8s.io/v1/namespaces/walk/ingresses", "", `{spec: {defaultBackend: {service: {name: walk, port: {number: 80}}}}}`},
	{"/apis/networking.k8s.io/v1/namespaces/walk/networkpolicies", "", `{spec: {podSelector: {}}}`},
	{"/apis/networking.k8s.io/v1/ipaddresses", "192.0.2.9", `{spec: {parentRef: {resource: services, namespace: walk, name: walk}}}`},
	{"/apis/networking.k8s.io/v1/servicecidrs", "", `{spec: {cidrs: [198.51.100.0/24]}}`},
	{"/apis/node.k8s.io/v1/runtimeclasses", "", `{handler: walk}`},
	{"/apis/policy/v1/namespaces/walk/poddisruptionbudgets", "", `{spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "", `{rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`},
	{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "", `{roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: walk}}`},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/walk/roles", "", `{rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`},
	{"/apis/rbac.authorization.k8s.io/v1/namespaces/walk/rolebindings", "", `{roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: walk}}`},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", "", `{value: 10}`},
	{"/apis/storage.k8s.io/v1/csidrivers", "", `{}`},
	{"/apis/storage.k8s.io/v1/csinodes", "", `{spec: {drivers: []}}`},
	{"/apis/storage.k8s.io/v1/namespaces/walk/csistoragecapacities", "", `{storageClassName: walk}`},
	{"/apis/storage.k8s.io/v1/storageclasses", "", `{provisioner: example.com/walk}`},
	{"/apis/storage.k8s.io/v1/volumeattachments", "", `{spec: {attacher: walk.example.com, nodeName: walk, source: {persistentVolumeName: walk}}}`},
	{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "nones.none.example.com", `{spec: {group: none.example.com, scope: Namespaced, names: {plural: nones, kind: None}, versions: [{name: v1, served: false, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`},
}

// Questions are the bodies of requests that create nothing, by the end of the path.
var Questions = map[string]string{
	"/tokenreviews":              `{spec: {token: x}}`,
	"/selfsubjectreviews":        `{}`,
	"/selfsubjectaccessreviews":  `{spec: {resourceAttributes: {verb: get, resource: pods}}}`,
	"/subjectaccessreviews":      `{spec: {user: walk, resourceAttributes: {verb: get, resource: pods}}}`,
	"/localsubjectaccessreviews": `{metadata: {namespace: walk}, spec: {user: walk, resourceAttributes: {namespace: walk, verb: get, resource: pods}}}`,
	"/selfsubjectrulesreviews":   `{spec: {namespace: walk}}`,
	"/token":                     `{spec: {audiences: [walk]}}`,
	"/eviction":                  `{metadata: {name: walk}}`,
	"/binding":                   `{metadata: {name: walk}, target: {kind: Node, name: walk}}`,
	"/bindings":                  `{metadata: {name: walk}, target: {kind: Node, name: walk}}`,
}

const (
	core = "/api/v1/namespaces/walk/"
	apps = "/apis/apps/v1/namespaces/walk/"
	// signingRequest is a certificate request of the user walk, in PEM, in base64.
	signingRequest = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWQyRnNhekJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkNrcDRXYktteGpFenhIaTM2UEQyNkZPdEF4bVJCUGduODZBMGpuN3BBMXhTdVkrYzhQWWVSc2Q0aktnCkc1ZXNRa3BBWUJ0dnJyMHdrTk01UktxOTdMcWdBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUJneFFhSjFaRE4KMDUxR3Evd0VONnREUk1ndU9FaENnci9JM01VVjlHWURrZ0loQU1wWndicXRUdkJxYWlMSy9rTXhpZ3VTMzFueQpMd3RSb3lxREV6NjdnZCtjCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
)

// Label returns the name of the object.
func (o Object) Label() string {
	if o.Name != "" {
		return o.Name
	}
	return "walk"
}

// Content returns the object with a name, as a client would send it.
func (o Object) Content(apiVersion, kind, name string) map[string]any {
	return Content(o.Body, apiVersion, kind, name)
}

// Content returns the object of body, in YAML, with a name.
func Content(body, apiVersion, kind, name string) map[string]any {
	var m map[string]any
	if err := yaml.Unmarshal([]byte(body), &m); err != nil {
		panic(err)
	}
	m["apiVersion"], m["kind"] = apiVersion, kind
	metadata, _ := m["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		m["metadata"] = metadata
	}
	metadata["name"], metadata["labels"] = name, map[string]any{"walk": "walk"}
	return m
}
