// Command chain measures the steps of a request to create a pod before the pod is
// stored: authentication (a client certificate), authorization (RBAC) and admission
// (the default plugins that both sides have, no webhooks). It measures planekit and
// kube-apiserver in one process and on the same objects.
//
//	cd bench && go run ./chain
//
// Both sides read their caches: planekit its own informers, kube-apiserver's
// authenticators, authorizers and plugins those of client-go. Rounds of the two
// alternate; the table shows the medians. The pods are made before the clock starts.
package main
