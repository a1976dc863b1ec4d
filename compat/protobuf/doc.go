// Package protobuf compares the protobuf of CustomResourceDefinitions and APIServices with that of Kubernetes' own types,
// byte by byte, for random objects.
package protobuf
