package crd_test

import (
	"fmt"
	"testing"
)

// TestMetadataOfDefinitions: definitions, of which no JSON is kept, are listed as metadata in every media type.
func TestMetadataOfDefinitions(t *testing.T) {
	a := start(t, nil)
	for i := range 3 {
		a.install(define(fmt.Sprint("things", i), fmt.Sprint("Thing", i), `{"type":"object"}`, ""))
	}
	for _, media := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"} {
		for range 2 {
			got := a.do("GET", definitions, "", "Accept: "+media+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
			a.want(got, 200, "things2.example.com")
		}
		a.want(a.do("GET", definitions+"/things2.example.com", "", "Accept: "+media+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), 200, "things2.example.com")
	}
	a.want(a.do("GET", definitions+"?includeObject=Metadata", "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"), 200, "things2.example.com")
}
