package apiregistration

import "github.com/planekit/planekit/kinds/internal/protobuf"

// The messages are those of Kubernetes' k8s.io/kube-aggregator/pkg/apis/apiregistration/v1, whose field numbers the tags have.

// Reset empties s.
func (s *APIService) Reset() { *s = APIService{} }

// Marshal returns s as a protobuf message.
func (s *APIService) Marshal() ([]byte, error) { return protobuf.Marshal(s) }

// Unmarshal reads a protobuf message into s.
func (s *APIService) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, s) }

// Reset empties l.
func (l *APIServiceList) Reset() { *l = APIServiceList{} }

// Marshal returns l as a protobuf message.
func (l *APIServiceList) Marshal() ([]byte, error) { return protobuf.Marshal(l) }

// Unmarshal reads a protobuf message into l.
func (l *APIServiceList) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, l) }
