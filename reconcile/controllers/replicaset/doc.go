// Package replicaset holds the controller of ReplicaSets. It keeps the number of pods that each
// ReplicaSet asks for, and does the same for ReplicationControllers, which it sees as ReplicaSets.
package replicaset
