package kube_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

// BenchmarkPod takes a pod as a controller makes it through a create.
func BenchmarkPod(b *testing.B) {
	pods := resource("pods")
	obj := pods.New()
	if err := kindtest.Unmarshal(benchmarkPod, obj); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		pod := obj.DeepCopyObject()
		pods.Strategy.Default(pod)
		pods.Strategy.PrepareForCreate(b.Context(), pod)
		if errs := pods.Strategy.Validate(b.Context(), pod); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

const benchmarkPod = `
metadata: {name: web-0, namespace: team, labels: {app: web}}
spec:
  serviceAccountName: default
  containers:
  - name: web
    image: nginx:1.27
    ports: [{name: http, containerPort: 80}]
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
    readinessProbe: {httpGet: {port: http}}
    volumeMounts: [{name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
  volumes:
  - name: token
    projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}]}
`
