// Command chain measures what a request to create a pod passes before it is stored:
// who asks (a client certificate), may they (RBAC), and should it be (the admission
// plugins that are on by default and that both sides have, no webhooks), in planekit
// and in kube-apiserver, in one process and on the same objects.
//
//	cd bench && go run ./chain
//
// Both sides read their local copies: here the informers of planekit, there those of
// client-go with kube-apiserver's own authenticators, authorizers and plugins. Rounds
// of the two take turns; the table has their medians. The pods that are created are
// made before the clock starts.
package main
