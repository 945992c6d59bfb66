package bot

import (
	"context"
	"errors"
	"fmt"

	"github.com/bwmarrin/discordgo"

	"github.com/ration-go/ration/cooldown"
)

// Serve has the bot answer the interactions of s, until remove is called. failed is told what went wrong.
func (b *Bot) Serve(s *discordgo.Session, failed func(error)) (remove func()) {
	return s.AddHandler(func(s *discordgo.Session, i *discordgo.InteractionCreate) {
		answer, err := b.Answer(context.Background(), i.Interaction)
		if answer != nil {
			err = errors.Join(err, s.InteractionRespond(i.Interaction, answer))
		}
		if err != nil {
			failed(err)
		}
	})
}

// Answer is what the bot says to an interaction; nil if it is not one of its own. With an error, too, there is something to
// say: that it did not work.
func (b *Bot) Answer(ctx context.Context, i *discordgo.Interaction) (*discordgo.InteractionResponse, error) {
	if i.Type != discordgo.InteractionApplicationCommand || i.ApplicationCommandData().Name != "award" {
		return nil, nil
	}
	caller := i.User // of a direct message
	if i.Member != nil {
		caller = i.Member.User
	}
	member := ""
	for _, o := range i.ApplicationCommandData().Options {
		if o.Name == "member" && o.Type == discordgo.ApplicationCommandOptionUser {
			member = o.UserValue(nil).ID
		}
	}
	if caller == nil || member == "" {
		return toCaller("Whom?"), nil
	}
	left, err := b.Award(ctx, i.GuildID, caller.ID, member)
	no, refused := errors.AsType[*cooldown.Refusal](err)
	switch {
	case !refused && err != nil:
		return toCaller("That did not work. Nothing was counted."), fmt.Errorf("bot: /award: %w", err)
	case !refused:
		return toAll(fmt.Sprintf("<@%s> is awarded. %d left today.", member, left)), nil
	}
	if answer, ok := no.Notice.(*discordgo.InteractionResponse); ok {
		return answer, nil
	}
	return toCaller(no.Message), nil
}

func toAll(text string) *discordgo.InteractionResponse {
	return &discordgo.InteractionResponse{
		Type: discordgo.InteractionResponseChannelMessageWithSource,
		Data: &discordgo.InteractionResponseData{Content: text},
	}
}

// toCaller is for the caller alone.
func toCaller(text string) *discordgo.InteractionResponse {
	answer := toAll(text)
	answer.Data.Flags = discordgo.MessageFlagsEphemeral
	return answer
}
