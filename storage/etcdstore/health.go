package etcdstore

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// alarms describes etcd's alarms to an operator.
var alarms = map[pb.AlarmType]string{
	pb.AlarmType_NOSPACE: "the database has reached its quota, so writes are refused until it was compacted and defragmented and the alarm is disarmed",
	pb.AlarmType_CORRUPT: "the member's data differs from the others'",
}

// Size returns the size of the database of the first endpoint, as etcd reports it.
func (s *Store) Size(ctx context.Context) (int64, error) {
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	endpoint := ""
	if all := s.client.Endpoints(); len(all) > 0 { // an embedded etcd has none
		endpoint = all[0]
	}
	response, err := s.client.Status(bounded, endpoint)
	if err != nil {
		return 0, fmt.Errorf("etcd: status: %w", translate(ctx, err))
	}
	return response.DbSize, nil
}

// Healthy returns nil if etcd has a quorum, as shown by a linearizable read, and has raised no
// alarm. The error for an alarm names the member, and NOSPACE or CORRUPT. It is meant for a
// readiness check every few seconds: reading the alarms costs etcd about as much as a small write.
func (s *Store) Healthy(ctx context.Context) error {
	if _, err := s.Revision(ctx); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	response, err := s.client.AlarmList(bounded)
	if err != nil {
		return fmt.Errorf("etcd: alarms: %w", translate(ctx, err))
	}
	var raised []error
	for _, a := range response.Alarms {
		raised = append(raised, fmt.Errorf("etcd: member %x: alarm %v: %s", a.MemberID, a.Alarm, alarms[a.Alarm]))
	}
	return errors.Join(raised...)
}
