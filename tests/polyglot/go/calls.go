package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "viking.example/polyglot/gen/viking/v1"
)

const (
	nContexts = 100
	batchSize = 25
	root      = "viking://resources/polyglot-go"
	question  = "Where is the spare key of bay 42?"
)

type imported struct {
	Count    int32 `json:"count"`
	Revision int64 `json:"revision"`
}

type violation struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// refused is a status with what its details say.
type refused struct {
	Code       uint32      `json:"code"`
	Reason     string      `json:"reason"`
	Violations []violation `json:"violations"`
}

type watched struct {
	Steps   []int32  `json:"steps"`
	Matches []string `json:"matches"`
}

// importContexts writes batches in one stream. Each is acknowledged before the next goes out: what was acknowledged is
// durable, and where the stream breaks one goes on from there.
func importContexts(ctx context.Context, channel *grpc.ClientConn) (done imported, err error) {
	stream, err := pb.NewContextServiceClient(channel).ImportContexts(ctx)
	if err != nil {
		return done, err
	}
	for sequence := 1; sequence <= nContexts/batchSize; sequence++ {
		batch := &pb.ImportContextsRequest{Sequence: int64(sequence)}
		for i := (sequence - 1) * batchSize; i < sequence*batchSize; i++ {
			batch.Contexts = append(batch.Contexts, &pb.Context{
				Uri:     fmt.Sprintf("%s/hall-%d/bay-%d.md", root, i/10, i),
				Content: fmt.Sprintf("The spare key of bay %d hangs behind clock %d.", i, 1000+i),
			})
		}
		if err := stream.Send(batch); err != nil {
			return done, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return done, err
		}
		if answer.Error != nil {
			return done, status.ErrorProto(answer.Error)
		}
		done.Count += answer.UpsertedCount
		done.Revision = answer.Revision
	}
	if err := stream.CloseSend(); err != nil {
		return done, err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return done, fmt.Errorf("the stream did not end: %w", err)
	}
	return done, nil
}

func retrieve(ctx context.Context, channel *grpc.ClientConn, minRevision int64) ([]string, error) {
	answer, err := pb.NewRetrievalServiceClient(channel).Retrieve(ctx, &pb.RetrieveRequest{
		Query:       &pb.Query{Input: &pb.Query_Text{Text: question}},
		Scope:       &pb.Scope{TargetUris: []string{root}},
		Limit:       5,
		MinRevision: minRevision,
	})
	return uris(answer), err
}

func uris(answer *pb.RetrieveResponse) []string {
	found := []string{}
	for _, match := range answer.GetMatches() {
		found = append(found, match.DisplayUri)
	}
	return found
}

// beRefused sends what is wrong in several places; the answer names them all.
func beRefused(ctx context.Context, channel *grpc.ClientConn) (refused, error) {
	alpha := float32(2)
	_, err := pb.NewRetrievalServiceClient(channel).Retrieve(ctx, &pb.RetrieveRequest{
		Query:   &pb.Query{Input: &pb.Query_Text{Text: " "}},
		Limit:   -1,
		Options: &pb.RetrieveOptions{ScorePropagationAlpha: &alpha},
	})
	return read(err)
}

// read takes a status apart.
func read(err error) (refused, error) {
	if err == nil {
		return refused{}, errors.New("the call was not refused")
	}
	told := status.Convert(err)
	found := refused{Code: uint32(told.Code()), Violations: []violation{}}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			found.Reason = detail.Reason
		case *errdetails.BadRequest:
			for _, one := range detail.FieldViolations {
				found.Violations = append(found.Violations, violation{one.Field, one.Reason})
			}
		}
	}
	return found, nil
}

// beLate waits for a revision that does not come, until the deadline.
func beLate(ctx context.Context, channel *grpc.ClientConn) (refused, error) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := pb.NewContextServiceClient(channel).GetContext(ctx, &pb.GetContextRequest{
		Uri:         root,
		MinRevision: 1 << 60,
	})
	found, err := read(err)
	found.Reason = "" // told by whichever side is first
	return found, err
}

// touch is not safe to repeat, so it fails where Retrieve is tried again.
func touch(ctx context.Context, channel *grpc.ClientConn) (refused, error) {
	_, err := pb.NewContextServiceClient(channel).TouchContexts(ctx, &pb.TouchContextsRequest{Uris: []string{root}})
	return read(err)
}

func watch(ctx context.Context, channel *grpc.ClientConn) (found watched, err error) {
	stream, err := pb.NewRetrievalServiceClient(channel).WatchRetrieve(ctx, &pb.WatchRetrieveRequest{
		Request: &pb.RetrieveRequest{
			Query: &pb.Query{Input: &pb.Query_Text{Text: question}},
			Scope: &pb.Scope{TargetUris: []string{root}},
			Limit: 5,
		},
	})
	if err != nil {
		return found, err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		switch event := answer.Event.(type) { // what a newer server sends beyond these is passed over
		case *pb.WatchRetrieveResponse_Step:
			found.Steps = append(found.Steps, event.Step.Index)
		case *pb.WatchRetrieveResponse_Result:
			found.Matches = uris(event.Result)
		}
	}
}
